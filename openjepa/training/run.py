"""A run from its built method to its last file: how long, train or continue, watch, save, say how it ended."""

import copy
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

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
from openjepa.runs.directory import RunFolder, write_broken, write_json, write_text
from openjepa.training import calibrate, loop, optim, outputs, resume, setup, watch

GPU_CHECK_EVERY = 10  # asking a GPU for a number makes it wait; on a CPU we ask at every step


@dataclass(frozen=True)
class Result:
    folder: Path
    steps: int
    is_finished: bool


@dataclass(frozen=True)
class Job:
    config: Config
    folder: RunFolder
    device: torch.device
    precision: Any
    source: Source

    def run(self, method: Method, *, is_new: bool) -> Result:
        loader = build.loader(self.config, self.source, self.device, method.augmentations, console.track)
        job = self
        if self.config.train.minutes is not None:
            job = replace(self, config=with_steps(self.config, self._steps_within_budget(method, loader)))
        if is_new and distributed.is_main():
            job._announce(minutes=self.config.train.minutes)
        distributed.barrier()  # rank 0 has written the first files
        optimizer = optim.adamw(method, betas=self.config.optim.betas)
        start = 0 if is_new else job._restore(method, optimizer)
        return job._train(method, optimizer, loader, start)

    def _train(self, method: Method, optimizer: torch.optim.Optimizer, loader: Loader, start: int) -> Result:
        training = self._training(method, optimizer, loader)
        if start >= training.total:
            console.notice(f"{self.folder.path} is finished: {start} of {training.total} steps are done")
            return self._finish(method, start, training.total)
        if distributed.is_main():
            self.folder.weights.unlink(missing_ok=True)  # of an earlier stop; until the end the checkpoints are newer
            self._set_status("running")
        recorder = metrics.Recorder(self.folder.metrics, start=start) if distributed.is_main() else None
        watching = watch.Watch(self.config.watch, metrics.read(self.folder.metrics) if distributed.is_main() else [])
        try:
            with Stop() as stop, console.TrainingProgress(training.total, start) as progress:
                training = replace(
                    training,
                    record=outputs.Record(recorder, progress, watching),
                    save=outputs.Saver(self.folder, self.config, method, optimizer, loader),
                    should_stop=lambda: stop.is_requested or watching.wants_stop,
                )
                done = loop.run(training, start)
        except OpenJepaError:
            if distributed.is_main():
                self._set_status("failed")
            raise
        finally:
            if recorder is not None:
                recorder.close()
            if distributed.is_main() and loader.broken:
                write_broken(self.folder, loader.broken)
        if watching.wants_stop and done < training.total:
            console.notice("watch=stop ends the run here; to go on all the same add --set watch=warn to --resume")
        return self._finish(method, done, training.total)

    def _training(self, method: Method, optimizer: torch.optim.Optimizer, loader: Loader) -> loop.Training:
        config, per_epoch = self.config, loader.order.steps_per_epoch
        total = setup.total_steps(config, per_epoch)
        if config.train.compile:
            for network in method.children():  # masks and losses stay eager: their shapes change from step to step
                if any(True for _ in network.parameters()):  # and so do running means, which are written to
                    network.compile()
        return loop.Training(
            method=method,
            trained=distributed.wrap(method),
            optimizer=optimizer,
            rates=setup.rates(config, steps_per_epoch=per_epoch, total=total),
            batches=loader.batches,
            split=loader.split,
            seed=config.seed,
            batch_size=config.train.batch_size,
            accumulate=config.train.accumulate,
            total=total,
            clip=config.optim.clip,
            precision=self.precision,
            device=self.device,
            monitors=setup.watchers(config, steps_per_epoch=per_epoch, total=total),
            record=_ignore,
            checkpoint_every=max(config.train.checkpoint_every.steps(steps_per_epoch=per_epoch, total=total), 1),
            save=_ignore,
            check_every=1 if self.device.type == "cpu" else GPU_CHECK_EVERY,
            should_stop=_never,
        )

    def _steps_within_budget(self, method: Method, loader: Loader) -> int:
        assert self.config.train.minutes is not None
        trial = replace(self, config=with_steps(self.config, 10**9))
        copied = copy.deepcopy(method)
        training = trial._training(copied, optim.adamw(copied, betas=self.config.optim.betas), loader)
        return calibrate.steps_within(self.config.train.minutes, training)

    def _announce(self, minutes: float | None) -> None:
        """The first files of a new run."""
        record = provenance.collect(
            data=self.config.data.source,
            fingerprint=self.source.fingerprint(),
            world_size=distributed.world_size(),
            precision=self.precision,
        )
        write_json(self.folder.provenance, {**record, "minutes": minutes})
        write_text(self.folder.config, configs.dump(self.config))

    def _restore(self, method: Method, optimizer: torch.optim.Optimizer) -> int:
        """Loads the newest intact checkpoint, if there is one; returns the steps done."""
        path = resume.newest_checkpoint(self.folder)
        if path is None:
            return 0
        resume.check_same_as_checkpoint(path, self.config)
        saved = checkpoint.load(path)
        method.load_state_dict(saved.weights)
        optimizer.load_state_dict(saved.optimizer)
        console.notice(f"continuing {self.folder.path} from step {saved.step}")
        return saved.step

    def _set_status(self, status: str, **more: Any) -> None:
        record = json.loads(self.folder.provenance.read_text(encoding="utf-8"))
        write_json(self.folder.provenance, {**record, "status": status, **more})

    def _peak_memory(self) -> int:
        """Of this process or of an earlier one, whose work this one went on with."""
        record = json.loads(self.folder.provenance.read_text(encoding="utf-8"))
        return max(devices.peak_memory(self.device), record.get("peak_memory_mib", 0))

    def _finish(self, method: Method, done: int, total: int) -> Result:
        is_finished = done >= total
        if distributed.is_main():
            outputs.write_weights(self.folder, method, self.config, done)
            ended = {"steps": done, "ended": provenance.now(), "peak_memory_mib": self._peak_memory()}
            self._set_status("finished" if is_finished else "stopped", **ended)
            if not is_finished:
                console.notice(
                    f"stopped cleanly at step {done} of {total}; continue with --run {self.folder.path} --resume"
                )
        distributed.barrier()
        return Result(self.folder.path, done, is_finished)


def _ignore(*_: Any) -> None:
    """No record, no checkpoint: for calibration."""


def _never() -> bool:
    return False


def with_steps(config: Config, steps: int) -> Config:
    train = config.train.model_copy(update={"steps": steps, "minutes": None})
    return config.model_copy(update={"train": train})
