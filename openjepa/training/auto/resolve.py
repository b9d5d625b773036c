"""From what the user gave to complete settings: looks at the images, measures the machine, chooses, and says why."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openjepa.core import config as configs
from openjepa.core import settings
from openjepa.core.config import Config
from openjepa.data.open import open_source
from openjepa.machine import console, distributed
from openjepa.training import recipe
from openjepa.training.auto import explain, facts, policy

DEFAULT_MINUTES = 30.0
RENDER_SIZE = 64  # pixels, of sources that draw their images at any size


@dataclass(frozen=True)
class Resolved:
    values: dict[str, Any]  # sections, as in a config file
    reasons: dict[str, str]  # by dotted path


def resolve(values: Mapping[str, Any]) -> Resolved:
    """Fills in what the user's sections leave open. On rank 0; the other processes receive its choice."""
    config = configs.load(values)  # wrong settings are reported before anything is measured
    given = checked_values(values, config)
    return distributed.from_main(_resolve(given) if distributed.is_main() else Resolved({}, {}))


def checked_values(values: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """The user's settings by dotted path, as the config has understood them: YAML reads 1e-3 as a word."""
    understood = settings.flat(config.model_dump(mode="json"))
    given = {path: understood.get(path, value) for path, value in settings.flat(values).items()}
    return {path: value for path, value in given.items() if value is not None}


def _resolve(given: dict[str, Any]) -> Resolved:
    reasons: dict[str, str] = {}
    if not any(path in given for path in settings.BUDGETS):
        given["train.minutes"] = DEFAULT_MINUTES
        reasons["train.minutes"] = "no length was given"
    name = given.get("data.source", Config().data.source)
    console.notice(f"recipe auto: looking at {name} and measuring this machine …")
    images = facts.look_at(open_source(name, image_size=_render_size(given)), name)
    machine = facts.measure()
    budget = facts.Budget(**{length: given.get(f"train.{length}") for length in settings.LENGTHS})
    choice = policy.choose(images, machine, budget, given)
    for line in explain.lines(images, machine, budget, choice, given):
        console.notice(line)
    values: dict[str, Any] = {}
    for path, value in {**choice.settings, **given, "recipe": recipe.AUTO}.items():
        settings.put(values, path, value)
    return Resolved(values, {**choice.reasons, **reasons})


def _render_size(given: Mapping[str, Any]) -> tuple[int, int]:
    size = given.get("data.image_size", RENDER_SIZE)
    return (size, size) if isinstance(size, int) else (size[0], size[1])
