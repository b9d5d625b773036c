"""`--minutes N`: how many steps fit into a time budget, from a short calibration on a copy of the method that is thrown away.

The schedules need the number of steps before the first one; a schedule that followed the clock could not be resumed exactly.
"""

import copy
import itertools
import os
import statistics
import sys
import time
from collections.abc import Mapping
from typing import Literal

import torch

from openjepa.core.config import Config
from openjepa.core.contracts import Method
from openjepa.data.batches.loader import Loader
from openjepa.machine import console, distributed
from openjepa.training import loop, optim, setup

WARMUP = 3  # steps that are not timed: first calls allocate and compile
SHARE = 0.04  # of the budget, at most …
MAX_STEPS = 100  # … and at most this many steps
OVERHEAD = 0.96  # monitors and checkpoints take the rest
BUSY = 1.5  # runnable processes per core; above it the timed steps are slower than they need to be
ENDLESS = 10**9  # steps; the clock ends the calibration


def steps_within(
    minutes: float,
    config: Config,
    method: Method,
    loader: Loader,
    *,
    device: torch.device,
    precision: Literal["float32", "bfloat16"],
) -> int:
    """Times some steps and returns how many fit into the rest of the budget."""
    console.notice(f"calibrating: timing up to {MAX_STEPS} steps …")
    parts = _trial(config, copy.deepcopy(method), loader)
    settings = loop.Settings(
        total=ENDLESS,
        seed=config.seed,
        batch_size=config.train.batch_size,
        accumulate=config.train.accumulate,
        clip=config.optim.clip,
        precision=precision,
        device=device,
        checkpoint_every=ENDLESS,
        check_every=1,
    )
    warning = busy_warning(_load(), os.cpu_count() or 1)  # now, before our own work counts as load
    began = time.perf_counter()
    clock = _Clock(began + 60 * minutes * SHARE)
    loop.run(parts, settings, clock)
    left = 60 * minutes - (time.perf_counter() - began)
    steps = distributed.from_main(max(round(OVERHEAD * left / clock.seconds_per_step), 1))
    console.notice(f"{minutes:g} minutes are about {steps} steps of {clock.seconds_per_step:.3f} s")
    if warning:
        console.notice(warning)
    return steps


def _trial(config: Config, method: Method, loader: Loader) -> loop.Parts:
    """What a run would train with, without monitors."""
    return loop.Parts(
        method=method,
        trained=setup.compile_and_wrap(config, method),
        optimizer=optim.adamw(method, betas=config.optim.betas),
        rates=setup.rates(config, steps_per_epoch=loader.order.steps_per_epoch, total=ENDLESS),
        loader=loader,
        monitors=(),
    )


def busy_warning(load: float, num_cores: int) -> str:
    """A warning when others use the cores too. A demo calibrated beside busy processes got 85 steps instead of 1,480."""
    if load <= BUSY * num_cores:
        return ""
    return (
        f"warning: other processes are busy on this machine (load {load:.1f} on {num_cores} cores), so the run gets fewer "
        "steps than it could; stop them and start over, or set the length with train.steps"
    )


def _load() -> float:
    """Runnable processes over the last minute; 0 on Windows, which does not report it."""
    return 0.0 if sys.platform == "win32" else os.getloadavg()[0]


class _Clock:
    """The hooks of a calibration: saves nothing, stops after its time or its steps, and measures the time of a step."""

    def __init__(self, ends: float) -> None:
        self.ends = ends
        self.times: list[float] = []

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Monitors are off."""

    def save_checkpoint(self, step: int) -> None:
        """A calibration leaves no checkpoint."""

    def should_stop(self) -> bool:
        self.times.append(time.perf_counter())
        has_enough = len(self.times) > WARMUP + 2
        return has_enough and (self.times[-1] > self.ends or len(self.times) > MAX_STEPS)

    @property
    def seconds_per_step(self) -> float:
        timed = self.times[WARMUP:]
        # the median: a neighbour that wakes up for a few steps must not shorten a run of hours
        return statistics.median(later - earlier for earlier, later in itertools.pairwise(timed))
