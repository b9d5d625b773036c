"""The speed of a training step, compared with the matrix-product peak of the same machine, measured alternately.

The shapes are fixed, so that commits and machines can be compared. Each runs in its own process, because peak memory and
the allocator are properties of a process.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from statistics import mean, median
from typing import Any

import torch
from torch import nn

from openjepa.benchmarks.timer import seconds_of
from openjepa.core import config as configs
from openjepa.core import seeding
from openjepa.core.contracts import DrawsMasks, Method
from openjepa.core.errors import OpenJepaError
from openjepa.core.types import Batch, Step
from openjepa.data.batches.from_arrays import crop_images
from openjepa.data.crops import batched
from openjepa.data.crops.crop import RandomCrop, draw_crops
from openjepa.machine import allocator, device
from openjepa.methods import build
from openjepa.planning import cost
from openjepa.training import optim, setup

PEAK_SIDE = 1024
NUM_DRAWS = 3  # of masks; timed steps take them in turn, because block sizes differ from step to step
SHAPES = (  # model, image size, batch size, attention of the predictor
    ("vit-tiny/4", 32, 128, "joint"),
    ("vit-tiny/4", 32, 128, "shared"),
    ("vit-small/8", 96, 64, "joint"),
    ("vit-base/16", 224, 16, "joint"),
)


def shapes(words: list[str], *, num_steps: int) -> list[dict[str, Any]]:
    """A row for each fixed shape."""
    rows = []
    for model, image_size, batch_size, attention in SHAPES:
        settings = [*words, f"method.predictor.attention={attention}"]
        row = _in_own_process(model, image_size, batch_size, num_steps, settings)
        row["predictor"] = "{width}×{depth} {attention}".format(**row["predictor"])
        rows.append(row)
    return rows


def _in_own_process(model: str, image_size: int, batch_size: int, num_steps: int, words: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "openjepa", "bench", "step", "--json", "--model", model, "--steps", str(num_steps)]
    command += ["--image-size", str(image_size), "--batch-size", str(batch_size)]
    command += [part for word in words for part in ("--set", word)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OpenJepaError(done.stderr.strip().removeprefix("openjepa: "))
    return json.loads(done.stdout)


@dataclass(frozen=True)
class Timing:
    """Seconds of one step, of its masks and its crops, and the peak measured just before."""

    step: float
    masks: float
    crops: float
    peak: float  # FLOP/s


def step(words: list[str], *, num_steps: int) -> dict[str, Any]:
    """A real optimiser step on images already in memory; steps and peak measurements alternate."""
    config = setup.resolve(configs.load({}, words))
    chosen = device.choose()
    is_tuned = chosen.type == "cpu" and allocator.tune(config.train.allocator)
    bench = StepBench(config, chosen)
    for index in range(NUM_DRAWS):
        bench.run(index)
    timings = [_timing(bench, index % NUM_DRAWS) for index in range(num_steps)]
    memory = device.peak_memory(chosen)  # before counting FLOP, which needs memory of its own
    flops = [bench.flops(index) for index in range(NUM_DRAWS)]
    shares = [flops[index % NUM_DRAWS] / timing.step / timing.peak for index, timing in enumerate(timings)]
    seconds = median(timing.step for timing in timings)
    return {
        "model": config.model.name,
        "image size": config.data.image_size,
        "batch size": config.train.batch_size,
        "predictor": config.method.get("predictor"),
        "precision": bench.precision,
        "threads": torch.get_num_threads(),
        "allocator": "tuned" if is_tuned else "system",
        "images per second": round(config.train.batch_size / seconds, 1),
        "ms per step": round(1e3 * seconds, 1),
        "ms of masks in it": round(1e3 * median(timing.masks for timing in timings), 2),
        "ms of crops beside it": round(1e3 * median(timing.crops for timing in timings), 2),
        "GFLOP per step": round(mean(flops) / 1e9, 2),
        "peak GFLOP/s": round(
            median(timing.peak for timing in timings) / 1e9, 1
        ),  # of float32, whatever the step's precision
        "share of peak": round(median(shares), 3),
        "memory MiB": memory,
    }


def _timing(bench: "StepBench", draw: int) -> Timing:
    peak = _matmul_flops_per_second(bench.batch.images.device)
    whole = seconds_of(partial(bench.run, draw))
    masks = seconds_of(partial(bench.masks, draw))
    return Timing(step=whole, masks=masks, crops=seconds_of(bench.crops), peak=peak)


class StepBench:
    """A method, its optimiser and one batch, ready to run steps."""

    def __init__(self, config: configs.Config, chosen: torch.device) -> None:
        self.config = config
        self.precision = device.resolve_precision(config.train.precision, chosen)
        self.method: Method = build.method(config).to(chosen).train()
        self.optimizer = optim.build(config.optim, self.method, self.precision)
        size, (height, width) = config.train.batch_size, config.data.height_width
        generator = torch.Generator().manual_seed(0)
        sides = [(height, width), *(view.size for view in self.method.augmentations)]
        images, *views = (torch.randn(size, 3, *side, generator=generator).to(chosen) for side in sides)
        self.batch = Batch(images, torch.arange(size), tuple(views))
        self.images = torch.randint(0, 256, (size, 3, height, width), generator=generator, dtype=torch.uint8)

    def run(self, index: int) -> None:
        self.gradients(index)
        self.update(index)

    def gradients(self, index: int = 0) -> None:
        """Of one step; the gradients of the step before are dropped."""
        self.optimizer.zero_grad(set_to_none=True)
        with device.autocast(self.precision, self.batch.images.device):
            loss = self.method.training_step(self.batch, self._step(index)).loss
        loss.backward()

    def update(self, index: int = 0) -> None:
        """Like the loop, which computes the norm of the gradient at every step."""
        nn.utils.get_total_norm([p.grad for p in self.method.parameters() if p.grad is not None])
        self.optimizer.step()
        self.method.after_update(self._step(index))

    def masks(self, index: int) -> None:
        if isinstance(self.method, DrawsMasks):
            self.method.masks(self._step(index))

    def crops(self) -> None:
        """The training crop of a batch whose images are in memory: what data costs when nothing has to be decoded."""
        data = self.config.data
        crop = RandomCrop(size=data.height_width, scale=data.crop_scale, aspect=data.crop_aspect, flip=data.flip)
        draws = draw_crops(len(self.images), seeding.generator(0, "crops", 0))
        batched.normalise(crop_images(self.images.to(self.batch.images.device), crop, draws))

    def flops(self, index: int) -> float:
        """Of forward and backward."""
        flops = cost.flops(self.method, self.batch, self._step(index))
        self.optimizer.zero_grad(set_to_none=True)
        return flops

    def _step(self, index: int) -> Step:
        size = self.config.train.batch_size
        return Step(index=index, total=1_000_000, seed=self.config.seed, batch_size=size, rows=slice(0, size))


def _matmul_flops_per_second(chosen: torch.device) -> float:
    a, b = torch.randn(PEAK_SIDE, PEAK_SIDE, device=chosen), torch.randn(PEAK_SIDE, PEAK_SIDE, device=chosen)
    out = torch.empty_like(a)
    best = min(seconds_of(lambda: torch.mm(a, b, out=out)) for _ in range(6))
    return 2 * PEAK_SIDE**3 / best
