"""How far a run is. Its length in steps may be revised while it trains; progress stays continuous and ends at 1.

Every schedule is a function of progress. After a decision at step i to end at `total`, the progress that is left is spread
evenly over the steps that are left: a line from (i, p) to (total, 1). One decision at step 0 gives index / total.
"""

from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter


@dataclass(frozen=True)
class Stretch:
    """From `step` on, the run ends after `total` steps; `progress` is that of `step`."""

    step: int
    total: int
    progress: float

    def at(self, step: int) -> float:
        if step >= self.total:
            return 1.0
        return self.progress + (step - self.step) * (1.0 - self.progress) / (self.total - self.step)


@dataclass(frozen=True)
class Pace:
    """
    >>> from openjepa.core.pace import Pace
    >>> pace = Pace.fixed(10).revised(5, total=25)  # half the progress in 5 steps, the other half in 20
    >>> [pace.progress(step) for step in (0, 5, 15, 25)], pace.total_at(4), pace.total
    ([0.0, 0.5, 0.75, 1.0], 10, 25)
    """

    stretches: tuple[Stretch, ...]

    @classmethod
    def fixed(cls, total: int) -> "Pace":
        return cls((Stretch(0, total, 0.0),))

    def revised(self, step: int, total: int) -> "Pace":
        """The same up to `step`, then a straight line to 1 at `total`."""
        if total == self.total_at(step):
            return self
        assert self.stretches[-1].step < step < total, f"a decision at step {step} for {total} steps, after {self}"
        return Pace((*self.stretches, Stretch(step, total, self.progress(step))))

    @property
    def total(self) -> int:
        """Steps of the whole run, as far as is known."""
        return self.stretches[-1].total

    def total_at(self, step: int) -> int:
        """What the plan was at `step`; a resumed run knows decisions that come later."""
        return self._stretch(step).total

    def progress(self, step: int) -> float:
        """In [0, 1], after `step` steps."""
        return self._stretch(step).at(step)

    def _stretch(self, step: int) -> Stretch:
        return self.stretches[bisect_right(self.stretches, step, key=attrgetter("step")) - 1]


@dataclass(frozen=True)
class Interval:
    """How often something is due: every `steps` steps or, if `share` is set, at every multiple of that share of progress."""

    steps: int
    share: float | None = None

    def is_due(self, step: int, pace: Pace) -> bool:
        if self.share is None or step == 0:
            return step % self.steps == 0
        return int(pace.progress(step) / self.share) > int(pace.progress(step - 1) / self.share)

    def since(self, step: int, pace: Pace) -> int:
        """Steps since it was last due before `step`."""
        if self.share is None:
            return step % self.steps or self.steps
        return next((number for number in range(1, step) if self.is_due(step - number, pace)), max(step, 1))
