"""`openjepa pretrain`: learn from unlabelled images."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from openjepa.cli import tables
from openjepa.cli.options import Count, Imports, Overrides
from openjepa.core.errors import BadInput


def pretrain(
    config: str | None = None,
    *,
    data: str | None = None,
    recipe: str | None = None,
    run: Path | None = None,
    method: str | None = None,
    model: str | None = None,
    image_size: Count | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    minutes: float | None = None,
    set_: Overrides = None,
    resume: Annotated[bool, Parameter(negative=())] = False,
    imports: Imports = (),
) -> None:
    """Learn from unlabelled images; writes a run folder.

    Example: openjepa pretrain --data photos/ --minutes 30

    Example: openjepa pretrain cifar10_20min --data cifar10:DIR

    Under torchrun the same command uses all processes. Resume a run with: openjepa pretrain --run DIR --resume

    Args:
        config: A recipe by name (see openjepa recipes) or a YAML file; default: auto, which fits your images, machine and time.
        data: A folder of images, a list file, or a source such as scenes, cifar10:DIR, npz:FILE.
        recipe: The same as CONFIG: auto, paper (the published settings), or another recipe.
        run: The run folder; default: runs/DATE-TIME.
        method: The method; default: ijepa.
        model: Size and patch, such as vit-tiny/16.
        image_size: Height and width of the images that the encoder sees, in pixels.
        epochs: Length in passes over the data.
        steps: Length in optimiser steps.
        minutes: Length in wall-clock time; the number of steps adapts to the machine's speed.
        set_: Any setting by its dotted path, such as --set optim.lr=1e-3; repeatable.
        resume: Continue the run in --run.
    """
    from openjepa.core import settings
    from openjepa.training.pretrain import pretrain as start

    if sum(length is not None for length in (epochs, steps, minutes)) > 1:
        raise BadInput("more than one of --epochs, --steps and --minutes is given; keep one")
    if config is not None and recipe is not None:
        raise BadInput(f"both {config} and --recipe {recipe} are given; keep one")
    if resume and run is None:
        raise BadInput("--resume needs the run folder to continue; add --run DIR")
    words = {
        "data.source": data,
        "data.image_size": image_size,
        "method.name": method,
        "model.name": model,
        "train.epochs": epochs,
        "train.steps": steps,
        "train.minutes": minutes,
        "imports": list(imports) or None,
    }
    options = {path: value for path, value in words.items() if value is not None}
    options.update(settings.parse_override(override) for override in set_ or [])
    result = start(config or recipe, run, settings=options, resumes=resume)
    if result.is_finished:
        tables.say(f"finished: {tables.count(result.steps, 'step')}, {result.folder}")
