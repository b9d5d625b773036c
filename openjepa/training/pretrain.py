"""Before a run: which settings, which data, may it start? The run itself is in run.py."""

from collections.abc import Mapping
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from openjepa.core import config as configs
from openjepa.core.config import Config
from openjepa.core.contracts import Method, Source
from openjepa.core.errors import BadInput
from openjepa.data.batches import build as batches
from openjepa.data.open import open_source
from openjepa.machine import allocator, console, distributed
from openjepa.machine import device as devices
from openjepa.methods import build
from openjepa.runs import provenance
from openjepa.runs.directory import RunFolder
from openjepa.runs.lock import Lock
from openjepa.training import recipe, resume, setup, watch
from openjepa.training import run as training
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

    `config` is a recipe's name, a YAML file, sections as in such a file, or a Config; `settings` by dotted path go on top, such as
    {"data.source": "photos/"}. `resumes` continues the run in that folder; without a config it uses the run's own settings.

    >>> import openjepa, tempfile
    >>> data = {"source": "scenes:16", "image_size": 32, "workers": 0}
    >>> config = {"data": data, "model": {"name": "vit-nano/8"}, "train": {"batch_size": 8, "steps": 2}}
    >>> folder = tempfile.TemporaryDirectory()
    >>> result = openjepa.pretrain(config, run=folder.name)
    >>> result.steps, result.is_finished
    (2, True)
    >>> folder.cleanup()
    """
    device = devices.choose()
    distributed.start(device)
    try:
        folder = RunFolder(Path(distributed.from_main(str(run or _new_name()))))
        resolved = setup.resolve(_config(config, settings or {}, folder, resumes))
        return _pretrain(resolved, folder, resumes, device)
    finally:
        distributed.stop()


def _pretrain(config: Config, folder: RunFolder, resumes: bool, device: torch.device) -> Result:
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
        return training.run(config, folder, source, method, device=device, precision=precision, is_new=is_new)


def _check_resume(config: Config, folder: RunFolder, source: Source) -> Config:
    """Refuses other settings or other data; a run with a time budget keeps the number of steps it started with."""
    past = provenance.read(folder)
    if config.train.minutes is not None and config.train.minutes == past.minutes:
        config = setup.with_steps(config, resume.stored_config(folder)["train"]["steps"])
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
    settings: Mapping[str, Any],
    folder: RunFolder,
    resumes: bool,
) -> Config:
    if isinstance(config, Config):
        return configs.load(config.model_dump(), words=settings) if settings else config
    if isinstance(config, str | Path):
        return configs.load(recipe.read(config), words=settings)
    if config is not None or not resumes:
        return configs.load(config or {}, words=settings)
    if not folder.holds_a_run:
        raise BadInput(
            f"{folder.path} holds no run to resume; add the settings of a new one, or use another --run folder"
        )
    return configs.load(resume.stored_config(folder), words=settings)


def _new_name() -> str:
    return f"runs/{datetime.now():%Y%m%d-%H%M%S}"
