"""Every registered monitor keeps its promises (openjepa/checks/monitors.py), and a broken promise is noticed."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch

from openjepa import checks
from openjepa.core.contracts import View, monitors
from openjepa.core.duration import Duration


@pytest.mark.parametrize("name", monitors.names())
def test_a_registered_monitor_keeps_its_promises(name: str) -> None:
    checks.monitor(monitors[name])


@dataclass(frozen=True)
class Made:
    """A monitor from a function of a view."""

    values: Callable[[View], dict]
    every: object = Duration(1)

    def __call__(self, view: View):
        return self.values(view).items()


def pull(view: View) -> dict:
    next(view.method.parameters()).data += 1
    return {"a/b": 1.0}


def draw(view: View) -> dict:
    return {"a/b": torch.rand(1).item()}


def switch(view: View) -> dict:
    view.method.eval()
    return {"a/b": 1.0}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (lambda view: {}, "yields nothing"),
        (lambda view: {"loss": 1.0}, '"loss" is not of the form area/name'),
        (lambda view: {"a/b": 1}, "a/b is 1; expected a finite float"),
        (lambda view: {"a/b": float("nan")}, "a/b is nan; expected a finite float"),
        (pull, "the monitor changes context_encoder"),
        (draw, "global generator"),
        (switch, "between train and eval"),
    ],
)
def test_a_broken_promise_is_noticed(values: Callable[[View], dict], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        checks.monitor(lambda: Made(values))


def test_a_monitor_without_a_duration_is_noticed() -> None:
    with pytest.raises(AssertionError, match="expected a Duration"):
        checks.monitor(lambda: Made(lambda view: {"a/b": 1.0}, every=3))
