"""Pretraining: which settings, which data, may it start? What follows is a Job, see job.py."""

import json
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from openjepa.core import config as configs
from openjepa.core.config import Config
from openjepa.core.contracts import Method
from openjepa.core.errors import BadInput
from openjepa.data.batches import build as batches
from openjepa.data.open import open_source
from openjepa.machine import allocator, console, device, distributed
from openjepa.methods import build
from openjepa.runs.directory import RunFolder
from openjepa.runs.lock import Lock
from openjepa.training import resume, setup, watch
from openjepa.training.run import Job, Result, with_steps

OF_ONE_CROP = ("crop_scale", "crop_aspect", "flip")  # settings of the data section that views have for themselves


def pretrain(
    config: Config | Mapping[str, Any] | None = None, run: str | Path | None = None, *, resumes: bool = False
) -> Result:
    """Trains, and returns where the run lies. `resumes` continues a run folder; with no config, with its own settings."""
    chosen = device.choose()
    distributed.start(chosen)
    try:
        folder = RunFolder(Path(distributed.from_main(str(run or _new_name()))))
        return _pretrain(_config(config, folder, resumes), folder, resumes, chosen)
    finally:
        distributed.stop()


def _pretrain(config: Config, folder: RunFolder, resumes: bool, chosen: torch.device) -> Result:
    config = setup.resolve(config)
    watch.check(config)
    if not resumes:
        resume.check_new(folder)
    source = open_source(config.data.source, image_size=config.data.height_width)
    past = _past(folder) if resumes else {}
    if resumes and not past:
        console.notice(f"{folder.path} holds no run yet; starting a new one at step 0")
    if past:
        config = _with_known_length(config, folder, past)
        resume.check_same(folder, config, source.fingerprint(), past)
    precision = device.resolve_precision(config.train.precision, chosen)
    if chosen.type == "cpu":
        allocator.tune(config.train.allocator)
    distributed.barrier()  # every process has looked at the folder before rank 0 writes into it
    job = Job(config, folder, chosen, precision, source)
    batches.check_data(config, source)
    method = build.method(config).to(chosen)  # before anything is written: what does not fit together is said here
    setup.check_watchers(config, method.encoder)
    _name_unused(config, method)
    with Lock(folder.path) if distributed.is_main() else nullcontext():
        return job.run(method, is_new=not past)


def _name_unused(config: Config, method: Method) -> None:
    defaults = type(config.data).model_fields
    names = [name for name in OF_ONE_CROP if getattr(config.data, name) != defaults[name].default]
    if names and method.augmentations:
        unused = " and ".join(f"data.{name}" for name in names)
        console.notice(f"{unused}: not used, {config.method['name']} makes views of its own; see docs/methods.md")


def _config(given: Config | Mapping[str, Any] | None, folder: RunFolder, resumes: bool) -> Config:
    if given is None:
        if not resumes:
            return configs.load({})
        if not folder.holds_a_run:
            raise BadInput(
                f"{folder.path} holds no run to resume; give the settings of a new one, or another --run folder"
            )
        return configs.load(resume.stored_config(folder))
    return given if isinstance(given, Config) else configs.load(given)


def _past(folder: RunFolder) -> dict[str, Any]:
    """The provenance of a run that was started before, or nothing."""
    if not folder.holds_a_run:
        return {}
    try:
        return json.loads(folder.provenance.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{folder.provenance} cannot be read ({error}); restore it, or start a new run") from None


def _with_known_length(config: Config, folder: RunFolder, past: dict[str, Any]) -> Config:
    """A run of so many minutes was given its number of steps when it started; it keeps them."""
    if config.train.minutes is not None and config.train.minutes == past.get("minutes"):
        return with_steps(config, resume.stored_config(folder)["train"]["steps"])
    return config


def _new_name() -> str:
    return f"runs/{datetime.now():%Y%m%d-%H%M%S}"
