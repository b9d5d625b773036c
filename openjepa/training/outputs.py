"""What a run writes while it trains and at its end. Only rank 0 writes, and only it has a watch."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from safetensors.torch import save_file

import openjepa
from openjepa.core import config as configs
from openjepa.core.config import Config
from openjepa.core.contracts import Method
from openjepa.data.batches.loader import Loader
from openjepa.machine import console, distributed
from openjepa.runs import checkpoint
from openjepa.runs.directory import RunFolder, write_broken
from openjepa.runs.metrics import Recorder
from openjepa.training.watch import Watch


@dataclass(frozen=True)
class Record:
    """Numbers go to metrics.jsonl, to the watch and to the person at the screen."""

    recorder: Recorder | None  # None on other ranks
    progress: console.TrainingProgress
    watch: Watch

    def __call__(self, step: int, values: Mapping[str, float]) -> None:
        if self.recorder is not None:
            self.recorder.write(step, values)
            self.watch(step, values)
            self.progress.update(step, values, state=self.watch.state)


@dataclass(frozen=True)
class Saver:
    """A checkpoint, and the list of broken pictures that all processes have met so far."""

    folder: RunFolder
    config: Config
    method: Method
    optimizer: torch.optim.Optimizer
    loader: Loader

    def __call__(self, step: int) -> None:
        for known in distributed.gather(dict(self.loader.broken)):
            self.loader.broken.update(known)
        if not distributed.is_main():
            return
        saved = checkpoint.Checkpoint(step, self.method.state_dict(), self.optimizer.state_dict())
        keep = self.config.train.keep
        checkpoint.save(self.folder.checkpoints, saved, metadata=metadata(self.config, step), keep=keep)
        if self.loader.broken:
            write_broken(self.folder, self.loader.broken)


def write_weights(folder: RunFolder, method: Method, config: Config, step: int) -> None:
    """RUN/weights.safetensors: every network of the method, and the config that rebuilds it."""
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in method.state_dict().items()}
    beside = folder.weights.with_name(".weights.partial")
    save_file(weights, beside, metadata=metadata(config, step))
    beside.replace(folder.weights)


def metadata(config: Config, step: int) -> dict[str, str]:
    return {"format": "openjepa", "version": openjepa.__version__, "step": str(step), "config": configs.dump(config)}
