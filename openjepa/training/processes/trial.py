"""Training steps of a throw-away method on random images, in any number of processes, to measure how fast they are."""

import time
from itertools import islice

import torch
from torch import nn

from openjepa.core.config import Config
from openjepa.core.contracts import Method
from openjepa.core.types import Step
from openjepa.data.batches import build as batches
from openjepa.data.sources.arrays import ArraySource
from openjepa.machine import allocator, distributed
from openjepa.machine import device as devices
from openjepa.methods import build
from openjepa.training import optim, setup

WARMUP = 2  # steps that are not timed
SECONDS = 3.0  # of timed steps, at least one
MAX_STEPS = 50


def images_per_second(config: Config) -> float:
    """Of all processes together; every process of the group must call it."""
    device = devices.choose()
    distributed.start(device)
    try:
        trial = Trial(config, device)
        trial.run(WARMUP)
        once = trial.run(1)
        steps = distributed.from_main(min(max(round(SECONDS / once), 1), MAX_STEPS))
        return config.train.batch_size * steps / trial.run(steps)
    finally:
        distributed.stop()


class Trial:
    """The parts of a run without accumulation, which would only repeat them."""

    def __init__(self, config: Config, device: torch.device) -> None:
        if device.type == "cpu":
            allocator.tune(config.train.allocator)
        self.config, self.device = config, device
        self.precision = devices.resolve_precision(config.train.precision, device)
        self.method: Method = build.method(config).to(device).train()
        self.trained: nn.Module = setup.compile_and_wrap(config, self.method)
        self.optimizer = optim.build(config.optim, self.method, self.precision)
        size = (config.train.batch_size, 3, *config.data.height_width)
        pixels = torch.randint(256, size, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
        self.loader = batches.loader(config, ArraySource("noise", pixels), device, self.method.augmentations)

    def run(self, steps: int) -> float:
        """Seconds."""
        batch_size, rows = self.config.train.batch_size, self.loader.split.rows(0)
        began = time.perf_counter()
        for index, batch in enumerate(islice(self.loader.batches(0), steps)):
            step = Step(index=index, total=1_000_000, seed=self.config.seed, batch_size=batch_size, rows=rows)
            self.optimizer.zero_grad(set_to_none=True)
            with devices.autocast(self.precision, self.device):
                loss = self.trained(batch, step).loss
            loss.backward()
            self.optimizer.step()
            self.method.after_update(step)
        distributed.barrier()  # the slowest process counts
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began
