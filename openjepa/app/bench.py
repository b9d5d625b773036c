"""Speed of this machine, as ratios measured in one process: masks in milliseconds, a training step against the matmul peak."""

import resource
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from openjepa.app import build
from openjepa.core import config as configs
from openjepa.core.contracts import Method, mask_strategies
from openjepa.core.errors import BadInput
from openjepa.core.types import Batch, Grid, Step
from openjepa.engine import device, optim

PEAK_SIDE = 1024
WARMUP = 3


def masks(*, batch_size: int, side: int, repeats: int = 30) -> list[dict[str, Any]]:
    """Median milliseconds of one draw, one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_mask_row(name, batch_size, Grid(side, side), repeats) for name in mask_strategies.names()]
    finally:
        torch.set_num_threads(before)


def _mask_row(name: str, batch_size: int, grid: Grid, repeats: int) -> dict[str, Any]:
    row: dict[str, Any] = {"masks": name, "grid": str(grid), "images": batch_size}
    generator = torch.Generator().manual_seed(0)
    try:
        strategy = mask_strategies[name]()
        seconds = [seconds_of(lambda: strategy(batch_size, grid, generator)) for _ in range(repeats + WARMUP)][WARMUP:]
    except BadInput as error:
        return {**row, "note": str(error)}
    return {**row, "median ms": round(1e3 * statistics.median(seconds), 2), "best ms": round(1e3 * min(seconds), 2)}


def step(words: list[str], *, num_steps: int) -> dict[str, Any]:
    """A real optimiser step on pictures that are already there; steps and peak measurements alternate."""
    config = build.resolve(configs.load({}, words))
    chosen = device.choose()
    bench = _StepBench(config, chosen)
    for index in range(WARMUP):
        bench.run(index)
    flops = bench.flops()
    seconds, mask_seconds, peaks = [], [], []
    for index in range(num_steps):
        peaks.append(_matmul_flops_per_second(chosen))
        seconds.append(seconds_of(partial(bench.run, index)))
        mask_seconds.append(seconds_of(partial(bench.masks, index)))
    typical, peak = statistics.median(seconds), statistics.median(peaks)
    return {
        "model": config.model.name,
        "image size": config.data.image_size,
        "batch size": config.train.batch_size,
        "predictor": config.method.get("predictor"),
        "threads": torch.get_num_threads(),
        "images per second": round(config.train.batch_size / typical, 1),
        "milliseconds per step": round(1e3 * typical, 1),
        "of these, drawing masks": round(1e3 * statistics.median(mask_seconds), 2),
        "GFLOP per step": round(flops / 1e9, 2),
        "matmul peak GFLOP/s": round(peak / 1e9, 1),
        "share of peak": round(flops / typical / peak, 3),
        "peak memory MiB": _peak_memory(chosen),
    }


class _StepBench:
    def __init__(self, config: configs.Config, chosen: torch.device) -> None:
        self.config = config
        self.method: Method = build.method(config).to(chosen).train()
        self.optimizer = optim.adamw(self.method, betas=config.optim.betas)
        size = config.train.batch_size
        images = torch.randn(size, 3, *config.data.height_width, generator=torch.Generator().manual_seed(0))
        self.batch = Batch(images.to(chosen), torch.arange(size))

    def run(self, index: int) -> None:
        step = self._step(index)
        self.method.training_step(self.batch, step).loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.method.after_update(step)

    def masks(self, index: int) -> None:
        draw = getattr(self.method, "masks", None)
        if draw is not None:
            draw(self.batch, self._step(index))

    def flops(self) -> float:
        """Of forward and backward, attention included: counted with attention written out as matrix products."""
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            self.method.training_step(self.batch, self._step(0)).loss.backward()
        self.optimizer.zero_grad(set_to_none=True)
        return float(counter.get_total_flops())

    def _step(self, index: int) -> Step:
        size = self.config.train.batch_size
        return Step(index, 1_000_000, self.config.seed, size, slice(0, size))


def _matmul_flops_per_second(chosen: torch.device) -> float:
    a, b = torch.randn(PEAK_SIDE, PEAK_SIDE, device=chosen), torch.randn(PEAK_SIDE, PEAK_SIDE, device=chosen)
    out = torch.empty_like(a)
    best = min(seconds_of(lambda: torch.mm(a, b, out=out)) for _ in range(6))
    return 2 * PEAK_SIDE**3 / best


def seconds_of(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began


def _peak_memory(chosen: torch.device) -> int:
    """Of this process, or of the GPU."""
    if chosen.type == "cuda":
        return torch.cuda.max_memory_allocated() // 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (2**20 if sys.platform == "darwin" else 2**10)
