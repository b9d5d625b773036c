"""`openjepa ablate`: change one thing at a time. The paper's ablations are in ablations.yaml; a user's file has the same form."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openjepa.core import settings as plain
from openjepa.core.errors import BadInput
from openjepa.core.registry import did_you_mean
from openjepa.studies.study import Arm, Study, Terms

PAPER = Path(__file__).with_name("ablations.yaml")
KEYS = {"title", "published", "arms"}
ARM_KEYS = {"set", "published"}


def study(name: str, terms: Terms, *, only: Sequence[str] = ()) -> Study:
    """`name` is one of the paper's ablations or a YAML file: title, published (optional), arms: {name: {set: {a.b: c}}}."""
    values = definition(name)
    arms = [_arm(str(arm), settings or {}, name) for arm, settings in values["arms"].items()]
    unknown = [word for word in only if word not in {arm.name for arm in arms}]
    if unknown:
        raise BadInput(
            f'--only "{unknown[0]}" is not an arm of {name}{did_you_mean(unknown[0], [arm.name for arm in arms])}'
        )
    chosen = tuple(arm for arm in arms if not only or arm.name in only)
    return Study(f"{values['title']}, {terms.title}", terms, chosen, values.get("published", ""))


def names() -> list[str]:
    return list(plain.read(PAPER))


def definition(name: str) -> dict[str, Any]:
    if name in names():
        return plain.read(PAPER)[name]
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        raise BadInput(f'no ablation "{name}" in the paper\'s list, and no YAML file{did_you_mean(name, names())}')
    values = plain.read(path)
    unknown = sorted(values.keys() - KEYS)
    if unknown:
        raise BadInput(f'unknown key "{unknown[0]}" in {path}{did_you_mean(unknown[0], KEYS)}')
    if not isinstance(values.get("arms"), dict) or len(values["arms"]) < 2 or "title" not in values:
        raise BadInput(f"{path} must have a title and two or more arms: {{name: {{set: {{optim.lr: 1e-3}}}}}}")
    return values


def _arm(name: str, values: Any, where: str) -> Arm:
    if not isinstance(values, dict):
        raise BadInput(f'arm "{name}" of {where} is "{values}"; expected {{set: {{optim.lr: 1e-3}}}}')
    unknown = sorted(values.keys() - ARM_KEYS)
    if unknown:
        raise BadInput(f'unknown key "{unknown[0]}" in arm "{name}" of {where}{did_you_mean(unknown[0], ARM_KEYS)}')
    settings, published = values.get("set") or {}, values.get("published")
    if not isinstance(settings, dict):
        raise BadInput(
            f'arm "{name}" of {where} has set "{settings}"; expected settings by their paths: {{optim.lr: 1e-3}}'
        )
    lengths = [path for path in settings if path in plain.BUDGETS]
    if lengths:
        raise BadInput(f'arm "{name}" of {where} sets {lengths[0]}; the budget is the same for all arms')
    if published is not None and not isinstance(published, int | float):
        raise BadInput(f'arm "{name}" of {where} has published "{published}"; expected a number')
    return Arm(name, dict(settings), published=published)
