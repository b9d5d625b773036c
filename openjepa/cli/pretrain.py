"""`openjepa pretrain`: learn from unlabelled images."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from openjepa.cli import tables
from openjepa.cli.options import Imports, Overrides
from openjepa.core.errors import BadInput

if TYPE_CHECKING:
    from openjepa.core.config import Config


def pretrain(
    config: str | None = None,
    *,
    data: str | None = None,
    run: Path | None = None,
    method: str | None = None,
    model: str | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    minutes: float | None = None,
    set_: Overrides = None,
    resume: Annotated[bool, Parameter(negative=())] = False,
    imports: Imports = (),
) -> None:
    """Learn from unlabelled images; writes a run folder.

    Example: openjepa pretrain --data photos/ --model vit-tiny/16 --epochs 50

    Example: openjepa pretrain cifar10_20min --data cifar10:DIR

    Under torchrun the same command uses all processes. Resume a run with: openjepa pretrain --run DIR --resume

    Args:
        config: A recipe by name (see openjepa recipes) or a YAML file with what differs from the defaults.
        data: A folder of images, a list file, or a source such as scenes, cifar10:DIR, npz:FILE.
        run: The run folder; default: runs/DATE-TIME.
        method: The method; default: ijepa.
        model: Size and patch, such as vit-tiny/16.
        epochs: Length in passes over the data.
        steps: Length in optimiser steps.
        minutes: Length in wall-clock time; a short calibration turns it into steps.
        set_: Any setting by its dotted path, such as --set optim.lr=1e-3; repeatable.
        resume: Continue the run in --run.
    """
    from openjepa.training.pretrain import pretrain as start

    if sum(length is not None for length in (epochs, steps, minutes)) > 1:
        raise BadInput("more than one of --epochs, --steps and --minutes is given; keep one")
    if resume and run is None:
        raise BadInput("--resume needs the run folder to continue; add --run DIR")
    words = {
        "data.source": data,
        "method.name": method,
        "model.name": model,
        "train.epochs": epochs,
        "train.steps": steps,
        "train.minutes": minutes,
        "imports": list(imports) or None,
    }
    words = {path: value for path, value in words.items() if value is not None}
    has_no_settings = config is None and not words and not set_
    options = None if resume and has_no_settings else _settings(config, words, set_ or [], run if resume else None)
    result = start(options, run, resumes=resume)
    if result.is_finished:
        tables.say(f"finished: {tables.count(result.steps, 'step')}, {result.folder}")


def _settings(name: str | None, words: dict[str, Any], overrides: list[str], resumed: Path | None) -> "Config":
    """Without a recipe, a resumed run starts from its own settings, so `--set data.workers=4` changes only that."""
    from openjepa.core import config as configs
    from openjepa.core import settings
    from openjepa.runs.directory import RunFolder
    from openjepa.training import recipe

    if name is None and resumed is not None and RunFolder(resumed).holds_a_run:
        return configs.load(settings.read(RunFolder(resumed).config), overrides, words)
    return configs.load(recipe.read(name) if name is not None else {}, overrides, words)
