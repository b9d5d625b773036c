"""`--minutes N`: how many steps fit into a wall-clock budget, from a short calibration on a copy that is thrown away.

The schedules need the number of steps before the first one; a schedule that followed the clock could not be resumed exactly.
"""

import itertools
import os
import statistics
import time
from dataclasses import replace

from openjepa.machine import console, distributed
from openjepa.training import loop

WARMUP = 3  # steps that are not timed: first calls allocate and compile
SHARE = 0.04  # of the budget, at most …
MOST_STEPS = 100  # … and at most so many steps
OVERHEAD = 0.96  # monitors and checkpoints take the rest
BUSY = 1.5  # processes that want to run for each core; above it the steps we time are slower than they need to be


def steps_within(minutes: float, trial: loop.Training) -> int:
    """Runs some steps of `trial` and returns how many fit into what is left of the budget."""
    warning = crowd(_load(), os.cpu_count() or 1)  # now, before our own work counts as load
    began = time.perf_counter()
    clock = _Clock(began + 60 * minutes * SHARE)
    loop.run(replace(trial, monitors=[], checkpoint_every=trial.total, check_every=1, should_stop=clock))
    left = 60 * minutes - (time.perf_counter() - began)
    steps = distributed.from_main(max(round(OVERHEAD * left / clock.seconds_per_step), 1))
    console.notice(f"{minutes:g} minutes are about {steps} steps of {clock.seconds_per_step:.3f} s")
    if warning:
        console.notice(warning)
    return steps


def crowd(load: float, num_cores: int) -> str:
    """A sentence when others want the cores too. A demo counted beside busy processes got 85 steps instead of 1,480."""
    if load <= BUSY * num_cores:
        return ""
    return (
        f"warning: other processes are busy on this machine (load {load:.1f} on {num_cores} cores), so the run gets fewer "
        "steps than it could; stop them and start again, or give the length as train.steps"
    )


def _load() -> float:
    """Processes that want to run, over the last minute; 0 where the system does not say."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


class _Clock:
    """Ends a calibration after its time or its steps, and knows what a step took."""

    def __init__(self, ends: float) -> None:
        self.ends = ends
        self.times: list[float] = []

    def __call__(self) -> bool:
        self.times.append(time.perf_counter())
        has_enough = len(self.times) > WARMUP + 2
        return has_enough and (self.times[-1] > self.ends or len(self.times) > MOST_STEPS)

    @property
    def seconds_per_step(self) -> float:
        timed = self.times[WARMUP:]
        # the median: a neighbour that wakes up for a few steps must not shorten a run of hours
        return statistics.median(later - earlier for earlier, later in itertools.pairwise(timed))
