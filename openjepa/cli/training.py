"""The verbs that train. Heavy imports stand inside, so that --help and a typo answer at once."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from openjepa.cli import tables
from openjepa.cli.options import Overrides
from openjepa.core.errors import BadInput

if TYPE_CHECKING:
    from openjepa.core.config import Config


def demo(*, run: Path = Path("demo"), minutes: float = 5.0, seed: int = 0) -> None:
    """The whole path on embedded data: pretrain, probe, report, in minutes on 2 cores.

    Example: openjepa demo

    Args:
        run: Where to put the run folder; an earlier demo there is replaced.
        minutes: Time for training.
        seed: Of weights, order, crops and masks.
    """
    from openjepa.cli import demo as demonstration

    scores = demonstration.run(run, minutes=minutes, seed=seed)
    if scores:
        tables.scores(scores, as_json=False)


def pretrain(
    config: Path | None = None,
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
) -> None:
    """Learn from unlabelled pictures; leaves a run folder.

    Example: openjepa pretrain --data photos/ --model vit-tiny/16 --epochs 50

    Under torchrun the same command uses all processes. A killed run goes on with: openjepa pretrain --run DIR --resume

    Args:
        config: A YAML file; only what differs from the defaults.
        data: A folder of pictures, a list file, or a source such as scenes, cifar10:DIR, npz:FILE.
        run: The run folder; default: runs/DATE-TIME.
        method: How to learn; default ijepa.
        model: Size and patch, such as vit-tiny/16.
        epochs: Length in passes over the data.
        steps: Length in optimiser steps.
        minutes: Length in wall-clock time; the schedule is fitted after a short calibration.
        set_: Any setting by its dotted path, such as --set optim.lr=1e-3; may be given many times.
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
    }
    words = {path: value for path, value in words.items() if value is not None}
    is_told_nothing = config is None and not words and not set_
    given = None if resume and is_told_nothing else _settings(config, words, set_ or [], run if resume else None)
    result = start(given, run, resumes=resume)
    if result.is_finished:
        tables.say(f"finished: {result.steps} steps, {result.folder}")


def _settings(file: Path | None, words: dict[str, Any], overrides: list[str], resumed: Path | None) -> "Config":
    """Without a config file a resumed run starts from its own settings, so `--set data.workers=4` changes only that."""
    from openjepa.core import config as configs
    from openjepa.core import settings
    from openjepa.runs.directory import RunFolder

    if file is None and resumed is not None and RunFolder(resumed).holds_a_run:
        file = RunFolder(resumed).config
    return configs.load(settings.read(file) if file is not None else {}, overrides, words)
