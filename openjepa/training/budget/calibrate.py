"""`--minutes N`: the first plan of a time budget, from a short calibration on a copy of the method that is thrown away.

The schedules need a number of steps before the first one. The run revises it when the machine gets busier or idler: pacer.py.
"""

import copy
import itertools
import os
import statistics
import sys
from collections.abc import Mapping
from typing import Literal

import torch

from openjepa.core.config import Config
from openjepa.core.contracts import Method
from openjepa.core.pace import Interval, Pace
from openjepa.data.batches.loader import Loader
from openjepa.machine import console, distributed
from openjepa.machine import device as devices
from openjepa.runs.pace import Decision
from openjepa.training import loop, optim, setup
from openjepa.training.budget import pacer

WARMUP = 2  # steps that are not timed: first calls allocate and compile
SHARE = 0.02  # of the budget, at most …
MAX_STEPS = 30  # … and at most this many steps
SLOW = 2.0  # seconds; a first step that takes longer is reported at once
OVERHEAD = 0.96  # monitors and checkpoints take the rest
BUSY = 1.5  # runnable processes per core; above it the timed steps are slower than they need to be
ENDLESS = 10**9  # steps; the clock ends the calibration


def first_plan(
    minutes: float,
    config: Config,
    method: Method,
    loader: Loader,
    *,
    device: torch.device,
    precision: Literal["float32", "bfloat16"],
) -> Decision:
    """Times some steps and decides how many fit into the rest of the budget."""
    console.notice(f"measuring speed: up to {MAX_STEPS} steps of {config.train.batch_size} images …")
    parts = _trial(config, copy.deepcopy(method), loader, precision)
    settings = loop.Settings(
        pace=Pace.fixed(ENDLESS),
        seed=config.seed,
        batch_size=config.train.batch_size,
        accumulate=config.train.accumulate,
        clip=config.optim.clip,
        precision=precision,
        device=device,
        checkpoint_every=Interval(ENDLESS),
        check_every=1,
    )
    warning = busy_warning(_load(), os.cpu_count() or 1)  # now, before our own work counts as load
    clock = _Clock(pacer.now(), 60 * minutes * SHARE, device)
    loop.run(parts, settings, clock)
    seconds, per_step = pacer.now() - clock.began, max(clock.seconds_per_step, 1e-6)
    steps = max(round(OVERHEAD * (60 * minutes - seconds) / per_step), 1)
    plan = distributed.from_main(Decision(step=0, total=steps, seconds=round(seconds, 3), seconds_per_step=per_step))
    console.notice(
        f"{minutes:g} minutes are about {plan.total} steps of {plan.seconds_per_step:.3f} s "
        f"({_memory(device)}); the number adapts to the machine's speed"
    )
    if warning:
        console.notice(warning)
    return plan


def _trial(config: Config, method: Method, loader: Loader, precision: Literal["float32", "bfloat16"]) -> loop.Parts:
    """What a run would train with, without monitors."""
    return loop.Parts(
        method=method,
        trained=setup.compile_and_wrap(config, method),
        optimizer=optim.build(config.optim, method, precision),
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
        "steps than it could; the plan adapts as soon as they stop"
    )


def _load() -> float:
    """Runnable processes over the last minute; 0 on Windows, which does not report it."""
    return 0.0 if sys.platform == "win32" else os.getloadavg()[0]


def _memory(device: torch.device) -> str:
    each = " in each process" if distributed.world_size() > 1 else ""
    return f"{devices.peak_memory(device) / 1024:.1f} GiB of memory{each}"


class _Clock:
    """The hooks of a calibration: saves nothing, stops after its time or its steps, and measures the time of a step."""

    def __init__(self, began: float, seconds: float, device: torch.device) -> None:
        self.began, self.ends, self.device = began, began + seconds, device
        self.times: list[float] = []

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Monitors are off."""

    def save_checkpoint(self, step: int) -> None:
        """A calibration leaves no checkpoint."""

    def should_stop(self) -> bool:
        self.times.append(pacer.now())
        if len(self.times) == 1 and self.times[0] - self.began > SLOW:
            console.notice(f"the first step took {self.times[0] - self.began:.0f} s and {_memory(self.device)}")
        has_enough = len(self.times) > WARMUP + 1
        return has_enough and (self.times[-1] > self.ends or len(self.times) > MAX_STEPS)

    @property
    def seconds_per_step(self) -> float:
        timed = self.times[WARMUP:]
        # the median: a neighbour that wakes up for a few steps must not shorten a run of hours
        return statistics.median(later - earlier for earlier, later in itertools.pairwise(timed))
