"""The metrics of a run so far, summarised for the rules of a verdict."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

WINDOW = 3  # readings behind one number, so that a single odd batch decides nothing


@dataclass(frozen=True)
class History:
    """Rows of metrics.jsonl: a step and named values, oldest first. A metric that was never recorded is nan."""

    rows: Sequence[Mapping[str, Any]]

    def points(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of one metric, finite values only: on a GPU most gradient norms are not read and are nan."""
        values = [(row["step"], float(row[name])) for row in self.rows if name in row]
        return [(step, value) for step, value in values if math.isfinite(value)]

    def first(self, name: str) -> float:
        points = self.points(name)
        return points[0][1] if points else math.nan

    def now(self, name: str) -> float:
        """The median of the last few values."""
        recent = [value for _, value in self.points(name)[-WINDOW:]]
        return median(recent) if recent else math.nan

    def until(self, step: int) -> "History":
        return History([row for row in self.rows if row["step"] <= step])

    def ratio(self, name: str) -> float:
        """The present value divided by the first."""
        first = self.first(name)
        return self.now(name) / first if first > 0 else math.nan

    def stays_below(self, name: str, share: float, readings: int) -> bool:
        """Whether each of the last `readings` values is below `share` of the first."""
        recent = [value for _, value in self.points(name)[-readings:]]
        return len(recent) == readings and max(recent) < share * self.first(name)

    def lowest(self, name: str) -> tuple[int, float]:
        """The step with the smallest running median, and that median."""
        points = self.points(name)
        windows = [points[start : start + WINDOW] for start in range(max(len(points) - WINDOW + 1, 1))]
        medians = [(window[-1][0], median(value for _, value in window)) for window in windows if window]
        return min(medians, key=lambda point: point[1], default=(0, math.nan))

    @property
    def step(self) -> int:
        return int(self.rows[-1]["step"]) if self.rows else 0
