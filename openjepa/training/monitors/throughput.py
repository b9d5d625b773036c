"""Images per second, and the share of time spent waiting for images."""

from collections.abc import Iterable
from dataclasses import dataclass

from openjepa.core.contracts import View, monitors
from openjepa.core.duration import Duration
from openjepa.core.numbers import DurationField


@monitors.register("throughput")
@dataclass(frozen=True, kw_only=True)
class Throughput:
    every: DurationField = Duration(10)

    def __call__(self, view: View) -> Iterable[tuple[str, float]]:
        yield "throughput/images_per_second", view.step.batch_size / view.step_seconds
        yield "data/wait_share", view.wait_seconds / view.step_seconds
