"""The loss, the method's own numbers and the rates of a step."""

from collections.abc import Iterable
from dataclasses import dataclass

from openjepa.core.contracts import View, monitors
from openjepa.core.duration import Duration
from openjepa.core.numbers import DurationField
from openjepa.machine import distributed


@monitors.register("loss")
@dataclass(frozen=True, kw_only=True)
class Loss:
    every: DurationField = Duration(10)

    def __call__(self, view: View) -> Iterable[tuple[str, float]]:
        yield "train/loss", distributed.mean(view.output.loss.detach()).item()
        yield "train/gradient_norm", view.gradient_norm
        yield "train/lr", view.lr
        yield "train/weight_decay", view.weight_decay
        for name, value in view.output.metrics.items():
            yield name, float(value)
