"""Before a run: which settings, which data, may it start? The run itself is in run.py."""

from collections.abc import Mapping
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from openjepa.core import config as configs
from openjepa.core import settings as plain
from openjepa.core.config import Config
from openjepa.core.contracts import Method, Source
from openjepa.core.errors import BadInput
from openjepa.data.batches import build as batches
from openjepa.data.open import open_source
from openjepa.machine import allocator, console, distributed, launch
from openjepa.machine import device as devices
from openjepa.methods import build
from openjepa.runs import provenance
from openjepa.runs.directory import RunFolder
from openjepa.runs.lock import Lock
from openjepa.training import recipe, resume, setup, watch
from openjepa.training import run as training
from openjepa.training.auto import resolve as auto
from openjepa.training.processes import arrange
from openjepa.training.run import Result

CROP_SETTINGS = ("crop_scale", "crop_aspect", "flip")  # of the data section; methods with views have their own


def pretrain(
    config: Config | Mapping[str, Any] | str | Path | None = None,
    run: str | Path | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    resumes: bool = False,
) -> Result:
    """Trains and returns the run folder.

    `config` is a recipe's name, a YAML file, sections as in such a file, or a Config; without one, the recipe `auto` chooses.
    `settings` by dotted path go on top, such as {"data.source": "photos/", "train.minutes": 30}. `resumes` continues the
    run in that folder; without a config it uses the run's own settings.

    >>> import openjepa, tempfile
    >>> data = {"source": "scenes:16", "image_size": 32, "workers": 0}
    >>> config = {"data": data, "model": {"name": "vit-nano/8"}, "train": {"batch_size": 8, "steps": 2}}
    >>> folder = tempfile.TemporaryDirectory()
    >>> result = openjepa.pretrain(config, run=folder.name)
    >>> result.steps, result.is_finished
    (2, True)
    >>> folder.cleanup()
    """
    folder = RunFolder(Path(run or _new_name()))
    if not launch.is_possible():
        distributed.start(devices.choose())  # under torchrun, so that all processes get what rank 0 chooses
    try:
        if not resumes:
            resume.check_new(folder)
        chosen_config, reasons = _config(config, settings or {}, folder, resumes)
        resolved = setup.resolve(chosen_config)
        chosen = arrange.choose(resolved, folder if resumes and folder.holds_a_run else None)
        if chosen.processes == 1:
            return _in_this_process(resolved, folder, resumes, reasons)
        console.notice(f"starting {chosen}; train.processes=1 would use this process alone")
        arguments = (resolved, folder, resumes, reasons)
        return launch.run(_in_this_process, arguments, chosen, modules=arrange.modules(resolved))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_interrupted(folder)) from None
    finally:
        distributed.stop()


def _in_this_process(config: Config, folder: RunFolder, resumes: bool, reasons: Mapping[str, str]) -> Result:
    """Alone, or as one process of torchrun or of our own launcher."""
    device = devices.choose()
    distributed.start(device)
    try:
        folder = RunFolder(Path(distributed.from_main(str(folder.path))))  # a new name has the time in it
        return _pretrain(config, folder, resumes, device, reasons)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_interrupted(folder)) from None
    finally:
        distributed.stop()


def _interrupted(folder: RunFolder) -> str:
    """Ctrl-C before the first step, or a second Ctrl-C while the first one is being obeyed."""
    if folder.holds_a_run:
        return f"interrupted; resume from the last checkpoint with: openjepa pretrain --run {folder.path} --resume"
    return "interrupted before training began; nothing was written, the same command starts over"


def _pretrain(
    config: Config, folder: RunFolder, resumes: bool, device: torch.device, reasons: Mapping[str, str]
) -> Result:
    """Every check comes before the first file is written."""
    watch.check(config)
    if not resumes:
        resume.check_new(folder)
    source = open_source(config.data.source, image_size=config.data.height_width)
    is_new = not (resumes and folder.holds_a_run)
    if not is_new:
        config = _check_resume(config, folder, source)
    elif resumes:
        console.notice(f"{folder.path} holds no run yet; starting a new one at step 0")
    precision = devices.resolve_precision(config.train.precision, device)
    if device.type == "cpu":
        allocator.tune(config.train.allocator)
    distributed.barrier()  # every process has checked the folder before rank 0 writes into it
    batches.check_data(config, source)
    method = build.method(config).to(device)
    setup.check_monitors(config, method.encoder)
    _name_unused(config, method)
    with Lock(folder.path) if distributed.is_main() else nullcontext():
        return training.run(
            config, folder, source, method, device=device, precision=precision, is_new=is_new, reasons=reasons
        )


def _check_resume(config: Config, folder: RunFolder, source: Source) -> Config:
    """Refuses other settings or other data. Version 0.1 fixed the number of steps of a time budget and stored that."""
    past, steps = provenance.read(folder), resume.stored_config(folder)["train"].get("steps")
    if config.train.minutes is not None and config.train.minutes == past.minutes and steps is not None:
        config = setup.with_steps(config, steps)
    resume.check_same(folder, config, source.fingerprint(), past.data.fingerprint)
    return config


def _name_unused(config: Config, method: Method) -> None:
    """Names settings that were changed and have no effect."""
    changed = config.data.model_dump(exclude_defaults=True)
    names = [f"data.{name}" for name in CROP_SETTINGS if name in changed]
    if names and method.augmentations:
        console.notice(
            f"{' and '.join(names)} has no effect: {config.method['name']} makes its own views; see docs/methods.md"
        )


def _config(
    config: Config | Mapping[str, Any] | str | Path | None,
    given: Mapping[str, Any],
    folder: RunFolder,
    resumes: bool,
) -> tuple[Config, dict[str, str]]:
    """The settings, and the reasons of those that `recipe: auto` chose. A run that resumes keeps its choice."""
    if isinstance(config, Config):
        return (configs.load(config.model_dump(), words=given) if given else config), {}
    if config is None and resumes and not folder.holds_a_run and not given:
        raise BadInput(
            f"{folder.path} holds no run to resume; add the settings of a new one, or use another --run folder"
        )
    values = recipe.read(config) if isinstance(config, str | Path) else plain.copied(config or {"recipe": recipe.AUTO})
    is_auto = values.get("recipe") == recipe.AUTO
    if is_auto and resumes and folder.holds_a_run:
        values, is_auto = resume.stored_config(folder), False
    for path, value in given.items():
        plain.put(values, path, value)
    if not is_auto:
        return configs.load(values), {}
    resolved = auto.resolve(values)
    return configs.load(resolved.values), resolved.reasons


def _new_name() -> str:
    return f"runs/{datetime.now():%Y%m%d-%H%M%S}"
