"""A run with a time budget ends in time although the machine gets busier or idler: it revises its number of steps.

Rank 0 reads the clock and decides; all processes follow at the same step. See docs/decisions/0009-pace.md.
"""

import itertools
import time
from collections import deque
from operator import itemgetter
from pathlib import Path

from openjepa.core.errors import BadInput
from openjepa.core.pace import Pace
from openjepa.machine import console, distributed
from openjepa.runs import pace as pace_file
from openjepa.runs.pace import Decision

# Shares of the time budget.
AIM = 0.99  # the last checkpoint and the weights take the rest
REVIEW = 0.05  # at most, between two reviews …
EARLY = 0.01  # … the first one comes after this
DENSE = 0.005  # … and they are never closer than this
LAST = 0.02  # at the end the number of steps can only fall
LEFT = 0.25  # of the time left, at most, between two reviews, so that the next one can still correct what happens until then
PAUSE = 0.03  # a longer step was a pause, perhaps of the machine, and says nothing about the next ones
MIN_STEPS = 10  # behind a speed, if there are as many
NEWS = 1.5  # a change of the length by this factor is printed

now = time.perf_counter


class Pacer:
    """`start(step)`, then after each step `if pacer.is_due(step): pace = pacer.review(step)`."""

    def __init__(self, minutes: float, path: Path, decisions: list[Decision]) -> None:
        self.budget, self.path = 60 * minutes, path
        self.decisions = distributed.from_main(decisions)
        self.pace = pace_file.pace(self.decisions)

    def start(self, step: int) -> None:
        """The clock resumes where the steps before `step` left it; time in which nobody trained does not count."""
        if self.decisions[-1].step < step < self.pace.total:  # there is a decision at each checkpoint
            raise BadInput(f"{self.path} has lost lines: it ends before the checkpoint of step {step}; restore it")
        before = [decision for decision in self.decisions if decision.step <= step][-1]
        used = before.seconds + (step - before.step) * before.seconds_per_step
        self._zero, self._began = now() - used, used
        self._next_review = used + EARLY * self.budget
        self._announced = self.pace.total
        # The first call of is_due is after a step: the first step of a process, which is slow, is not measured.
        self._ticks: deque[tuple[int, float]] = deque()
        if distributed.is_main():
            pace_file.write(self.path, self.decisions)  # without a line that a killed process left unfinished

    @property
    def seconds(self) -> float:
        """Of training so far."""
        return now() - self._zero

    def is_due(self, step: int) -> bool:
        """After each step, or each few; True on rank 0 only. Decisions that a resumed run reads are not made again."""
        if not distributed.is_main():
            return False
        seconds = self.seconds
        self._ticks.append((step, seconds))
        window = min(2 * REVIEW * self.budget, max(AIM * self.budget - seconds, DENSE * self.budget))
        while len(self._ticks) > 2 and seconds - self._ticks[1][1] > window and step - self._ticks[1][0] >= MIN_STEPS:
            self._ticks.popleft()
        return step > self.decisions[-1].step and seconds >= self._next_review

    def review(self, step: int) -> Pace:
        """Rank 0 decides and writes; every process calls this after the same step and gets the same plan."""
        total = distributed.from_main(self._decide(step) if distributed.is_main() else 0)
        self.pace = self.pace.revised(step, total)
        return self.pace

    def _decide(self, step: int) -> int:
        if step <= self.decisions[-1].step:
            return self.pace.total_at(step)
        seconds, per_step = self.seconds, self._seconds_per_step()
        total = self.pace.total if per_step is None else step + self._steps_left(step, seconds, per_step)
        per_step = per_step or self.decisions[-1].seconds_per_step
        decision = Decision(step=step, total=total, seconds=round(seconds, 3), seconds_per_step=per_step)
        pace_file.append(self.path, decision)
        self.decisions.append(decision)
        left = max(AIM * self.budget - seconds, 0.0)
        wait = min(REVIEW * self.budget, LEFT * left, max(seconds - self._began, EARLY * self.budget))
        self._next_review = seconds + max(wait, DENSE * self.budget)
        self._announce(decision)
        return total

    def _seconds_per_step(self) -> float | None:
        """The mean of recent steps, with checkpoints and monitors but without a pause; None before there are two."""
        gaps = [(later[0] - earlier[0], later[1] - earlier[1]) for earlier, later in itertools.pairwise(self._ticks)]
        longest = max(gaps, key=itemgetter(1), default=(0, 0.0))
        if len(gaps) > 2 and longest[1] > PAUSE * self.budget:
            gaps.remove(longest)
        steps, seconds = sum(gap[0] for gap in gaps), sum(gap[1] for gap in gaps)
        return seconds / steps if steps and seconds > 0 else None

    def _steps_left(self, step: int, seconds: float, per_step: float) -> int:
        left, last = AIM * self.budget - seconds, LAST * self.budget
        if left > last:
            return max(round(left / per_step), 1)
        return min(self.pace.total - step, max(round(last / per_step), 1))

    def _announce(self, decision: Decision) -> None:
        if max(decision.total / self._announced, self._announced / decision.total) < NEWS:
            return
        console.notice(
            f"new plan at step {decision.step}: {decision.total} steps instead of {self._announced}, because a step takes "
            f"{decision.seconds_per_step:.3f} s now; the run ends at the same time"
        )
        self._announced = decision.total
