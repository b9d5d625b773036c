"""One run in order: start → restore → train → finish. Whether it may start is decided in pretrain.py.

Every process of a distributed run comes through here; only rank 0 writes files and has a watch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import save_file

import openjepa
from openjepa.core import config as configs
from openjepa.core.config import Config
from openjepa.core.contracts import Method, Source
from openjepa.core.errors import OpenJepaError
from openjepa.core.pace import Pace
from openjepa.data.batches import build
from openjepa.data.batches.loader import Loader
from openjepa.machine import console, distributed
from openjepa.machine import device as devices
from openjepa.machine.signals import Stop
from openjepa.runs import checkpoint, metrics, provenance
from openjepa.runs import pace as pace_file
from openjepa.runs.directory import RunFolder, write_broken, write_text
from openjepa.training import loop, optim, recipe, resume, setup
from openjepa.training.budget import calibrate
from openjepa.training.budget.pacer import Pacer
from openjepa.training.watch import Watch

PAPER_EPOCHS = 300  # of ImageNet-1k, ViT-H/14
FAR_TOO_SHORT = 0.2


@dataclass(frozen=True)
class Result:
    folder: Path
    steps: int
    is_finished: bool


def run(
    config: Config,
    folder: RunFolder,
    source: Source,
    method: Method,
    *,
    device: torch.device,
    precision: Literal["float32", "bfloat16"],
    is_new: bool,
    reasons: Mapping[str, str],
) -> Result:
    """Trains `method` to the end of the run, or to a requested stop. `reasons` become comments of the run's config."""
    console.notice(f"{folder.path}: {config.method['name']}, {config.model.name}, {config.data.source}")
    loader = build.loader(config, source, device, method.augmentations, console.track)
    minutes, pacer, per_epoch = config.train.minutes, None, loader.order.steps_per_epoch
    if minutes is not None and is_new:
        first = calibrate.first_plan(minutes, config, method, loader, device=device, precision=precision)
        pacer = Pacer(minutes, folder.pace, [first])
    elif minutes is not None:
        pacer = Pacer(minutes, folder.pace, pace_file.read(folder.pace))
    pace = Pace.fixed(setup.total_steps(config, per_epoch)) if pacer is None else pacer.pace
    training = TrainingRun(
        config=config,
        folder=folder,
        method=method,
        optimizer=optim.build(config.optim, method, precision),
        loader=loader,
        settings=setup.loop_settings(config, pace, steps_per_epoch=per_epoch, device=device, precision=precision),
        pacer=pacer,
    )
    if config.recipe == recipe.PAPER and training.total < FAR_TOO_SHORT * PAPER_EPOCHS * per_epoch:
        console.notice(
            f"warning: the paper's schedule needs {PAPER_EPOCHS} epochs; you have {training.total / per_epoch:.2g}. "
            "Its settings learn next to nothing in so few; recipe auto, the default, has settings for short runs"
        )
    if is_new and distributed.is_main():
        training.start(source, reasons)
    distributed.barrier()  # rank 0 has written the first files
    done = 0 if is_new else training.restore()
    if done >= training.total:
        console.notice(f"{folder.path} is finished: {done} of {training.total} steps are done")
    else:
        done = training.train(done)
    return training.finish(done)


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """The parts of a run, built."""

    config: Config
    folder: RunFolder
    method: Method
    optimizer: torch.optim.Optimizer
    loader: Loader
    settings: loop.Settings
    pacer: Pacer | None  # of a run with a time budget

    @property
    def total(self) -> int:
        """Steps of the run; a time budget revises it on the way."""
        return self.settings.pace.total if self.pacer is None else self.pacer.pace.total

    def start(self, source: Source, reasons: Mapping[str, str]) -> None:
        """Writes the first files of a new run; the config comes last, because it makes the folder a run."""
        record = provenance.collect(
            data=self.config.data.source,
            fingerprint=source.fingerprint(),
            world_size=distributed.world_size(),
            precision=self.settings.precision,
            minutes=self.config.train.minutes,
        )
        provenance.write(self.folder, record)
        if self.pacer is not None:
            pace_file.write(self.folder.pace, self.pacer.decisions)
        write_text(self.folder.config, configs.dump(self.config, reasons))

    def restore(self) -> int:
        """Loads the newest intact checkpoint, if there is one; returns the number of steps done."""
        path = resume.newest_checkpoint(self.folder)
        if path is None:
            return 0
        resume.check_same_as_checkpoint(path, self.config)
        saved = checkpoint.load(path)
        self.method.load_state_dict(saved.weights)
        self.optimizer.load_state_dict(saved.optimizer)
        console.notice(f"resuming {self.folder.path} from step {saved.step}")
        return saved.step

    def train(self, start: int) -> int:
        """Trains from step `start`; returns the number of steps done. Metrics, checkpoints and messages on the way."""
        first = self.settings.pace.total_at(0)
        parts = setup.loop_parts(self.config, self.method, self.optimizer, self.loader, total=first, pacer=self.pacer)
        if distributed.is_main():
            self.folder.weights.unlink(missing_ok=True)  # of an earlier stop; until the end the checkpoints are newer
            provenance.set_status(self.folder, "running")
        recorder = metrics.Recorder(self.folder.metrics, start=start) if distributed.is_main() else None
        watch = Watch(self.config.watch, metrics.read(self.folder.metrics) if distributed.is_main() else [])
        try:
            with Stop() as stop, console.TrainingProgress(self.total, start) as progress:
                if self.pacer is not None:
                    self.pacer.start(start)
                outputs = _Outputs(run=self, recorder=recorder, progress=progress, watch=watch, stop=stop)
                done = loop.run(parts, self.settings, outputs, start)
        except OpenJepaError:
            if distributed.is_main():
                provenance.set_status(self.folder, "failed")
            raise
        finally:
            if recorder is not None:
                recorder.close()
            if distributed.is_main() and self.loader.broken:
                write_broken(self.folder, self.loader.broken)
        if watch.wants_stop and done < self.total:
            console.notice("watch=stop ended the run; to train on anyway, add --set watch=warn to --resume")
        return done

    def finish(self, done: int) -> Result:
        """Writes the weights and how the run ended."""
        is_finished = done >= self.total
        if distributed.is_main():
            self.write_weights(done)
            record, peak = provenance.read(self.folder), devices.peak_memory(self.settings.device)
            record = replace(
                record,
                status="finished" if is_finished else "stopped",
                steps=done,
                ended=provenance.now(),
                peak_memory_mib=max(peak, record.peak_memory_mib or 0),  # an earlier process may have needed more
            )
            provenance.write(self.folder, record)
            if not is_finished:
                console.notice(
                    f"stopped cleanly at step {done} of {self.total}; "
                    f"resume with: openjepa pretrain --run {self.folder.path} --resume"
                )
        distributed.barrier()
        return Result(self.folder.path, done, is_finished)

    def save_checkpoint(self, step: int) -> None:
        """With the list of broken images that any process has met so far."""
        for broken in distributed.gather(dict(self.loader.broken)):
            self.loader.broken.update(broken)
        if not distributed.is_main():
            return
        state = checkpoint.Checkpoint(step, self.method.state_dict(), self.optimizer.state_dict())
        keep = self.config.train.keep
        checkpoint.save(self.folder.checkpoints, state, metadata=self._metadata(step), keep=keep)
        if self.loader.broken:
            write_broken(self.folder, self.loader.broken)

    def write_weights(self, step: int) -> None:
        """RUN/weights.safetensors: every network of the method, and the config that rebuilds it."""
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in self.method.state_dict().items()}
        partial = self.folder.weights.with_name(".weights.partial")
        save_file(weights, partial, metadata=self._metadata(step))
        partial.replace(self.folder.weights)

    def _metadata(self, step: int) -> dict[str, str]:
        config = configs.dump(self.config)
        return {"format": "openjepa", "version": openjepa.__version__, "step": str(step), "config": config}


@dataclass(frozen=True, kw_only=True)
class _Outputs:
    """The loop's hooks: numbers go to metrics.jsonl, to the watch and to the screen; checkpoints to the run folder."""

    run: TrainingRun
    recorder: metrics.Recorder | None  # None on other ranks
    progress: console.TrainingProgress
    watch: Watch
    stop: Stop

    def record(self, step: int, values: Mapping[str, float]) -> None:
        if self.recorder is not None:
            self.recorder.write(step, values)
            self.watch(step, values)
            self.progress.update(step, values, self.run.total, state=self.watch.state)

    def save_checkpoint(self, step: int) -> None:
        self.run.save_checkpoint(step)

    def should_stop(self) -> bool:
        return self.stop.is_requested or self.watch.wants_stop
