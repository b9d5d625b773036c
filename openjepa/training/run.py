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
from openjepa.data.batches import build
from openjepa.data.batches.loader import Loader
from openjepa.machine import console, distributed
from openjepa.machine import device as devices
from openjepa.machine.signals import Stop
from openjepa.runs import checkpoint, metrics, provenance
from openjepa.runs.directory import RunFolder, write_broken, write_text
from openjepa.training import calibrate, loop, optim, resume, setup
from openjepa.training.watch import Watch


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
) -> Result:
    """Trains `method` to the end of the run, or to a requested stop."""
    console.notice(f"{folder.path}: {config.method['name']}, {config.model.name}, {config.data.source}")
    loader = build.loader(config, source, device, method.augmentations, console.track)
    minutes = config.train.minutes
    if minutes is not None:
        steps = calibrate.steps_within(minutes, config, method, loader, device=device, precision=precision)
        config = setup.with_steps(config, steps)
    per_epoch = loader.order.steps_per_epoch
    training = TrainingRun(
        config=config,
        folder=folder,
        method=method,
        optimizer=optim.adamw(method, betas=config.optim.betas),
        loader=loader,
        settings=setup.loop_settings(config, steps_per_epoch=per_epoch, device=device, precision=precision),
    )
    if is_new and distributed.is_main():
        training.start(source, minutes)
    distributed.barrier()  # rank 0 has written the first files
    done = 0 if is_new else training.restore()
    if done >= training.settings.total:
        console.notice(f"{folder.path} is finished: {done} of {training.settings.total} steps are done")
    else:
        done = training.train(done)
    return training.finish(done)


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """The parts of a run, built, and its length in steps."""

    config: Config
    folder: RunFolder
    method: Method
    optimizer: torch.optim.Optimizer
    loader: Loader
    settings: loop.Settings

    def start(self, source: Source, minutes: float | None) -> None:
        """Writes the first files of a new run; `minutes` is its time budget, if it has one."""
        record = provenance.collect(
            data=self.config.data.source,
            fingerprint=source.fingerprint(),
            world_size=distributed.world_size(),
            precision=self.settings.precision,
            minutes=minutes,
        )
        provenance.write(self.folder, record)
        write_text(self.folder.config, configs.dump(self.config))

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
        total = self.settings.total
        parts = setup.loop_parts(self.config, self.method, self.optimizer, self.loader, total=total)
        if distributed.is_main():
            self.folder.weights.unlink(missing_ok=True)  # of an earlier stop; until the end the checkpoints are newer
            provenance.set_status(self.folder, "running")
        recorder = metrics.Recorder(self.folder.metrics, start=start) if distributed.is_main() else None
        watch = Watch(self.config.watch, metrics.read(self.folder.metrics) if distributed.is_main() else [])
        try:
            with Stop() as stop, console.TrainingProgress(total, start) as progress:
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
        if watch.wants_stop and done < total:
            console.notice("watch=stop ended the run; to train on anyway, add --set watch=warn to --resume")
        return done

    def finish(self, done: int) -> Result:
        """Writes the weights and how the run ended."""
        is_finished = done >= self.settings.total
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
                    f"stopped cleanly at step {done} of {self.settings.total}; "
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
            self.progress.update(step, values, state=self.watch.state)

    def save_checkpoint(self, step: int) -> None:
        self.run.save_checkpoint(step)

    def should_stop(self) -> bool:
        return self.stop.is_requested or self.watch.wants_stop
