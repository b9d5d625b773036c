"""`--minutes N`: how many steps fit into a wall-clock budget, from a short calibration on a copy that is thrown away.

The schedules need the number of steps before the first one; a schedule that followed the clock could not be resumed exactly.
"""

import time
from dataclasses import replace

from openjepa.app import console
from openjepa.engine import distributed, loop

WARMUP = 3  # steps that are not timed: first calls allocate and compile
SHARE = 0.04  # of the budget, at most …
MOST_STEPS = 40  # … and at most so many steps
OVERHEAD = 0.96  # monitors and checkpoints take the rest


def steps_within(minutes: float, trial: loop.Training) -> int:
    """Runs some steps of `trial` and returns how many fit into what is left of the budget."""
    began = time.perf_counter()
    clock = _Clock(began + 60 * minutes * SHARE)
    loop.run(replace(trial, monitors=[], checkpoint_every=trial.total, check_every=1, should_stop=clock))
    left = 60 * minutes - (time.perf_counter() - began)
    steps = distributed.from_main(max(round(OVERHEAD * left / clock.seconds_per_step), 1))
    console.notice(f"{minutes:g} minutes are about {steps} steps of {clock.seconds_per_step:.3f} s")
    return steps


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
        return (timed[-1] - timed[0]) / (len(timed) - 1)
