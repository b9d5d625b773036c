"""What every monitor promises: it yields ("area/name", number) and changes nothing."""

import math
from collections.abc import Callable

import torch

from openjepa.checks.methods import tiny_encoder
from openjepa.core.contracts import Monitor, View
from openjepa.core.duration import Duration
from openjepa.core.types import Batch, Step
from openjepa.methods.ijepa import IJEPA

NUM_IMAGES = 8


def monitor(make: Callable[[], Monitor]) -> None:
    """`make` is the class, if its options all have defaults, or a function without arguments.

    >>> from openjepa import checks
    >>> from openjepa.core.duration import Duration
    >>> from openjepa.training.monitors.loss import Loss
    >>> checks.monitor(Loss)
    >>> checks.monitor(lambda: Loss(every=Duration(5)))
    """
    view = one_view()
    method = view.method
    weights = {name: value.clone() for name, value in method.state_dict().items()}
    random_state, was_training = torch.get_rng_state(), method.training
    one = make()
    assert isinstance(one.every, Duration), f"every is {one.every!r}; expected a Duration"
    values = dict(one(view))
    _check_values(values)
    assert torch.equal(random_state, torch.get_rng_state()), "the monitor moves torch's global generator"
    assert method.training == was_training, "the monitor switches the method between train and eval"
    for name, value in method.state_dict().items():
        assert torch.equal(value, weights[name]), f"the monitor changes {name}"


def one_view() -> View:
    """An I-JEPA step on noise, after backward."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        method = IJEPA(tiny_encoder())
        batch = Batch(torch.randn(NUM_IMAGES, 3, 32, 32), torch.arange(NUM_IMAGES))
    step = Step(index=5, total=100, seed=0, batch_size=NUM_IMAGES, rows=slice(0, NUM_IMAGES))
    output = method(batch, step)
    output.loss.backward()
    return View(
        step=step,
        method=method,
        output=output,
        gradient_norm=0.5,
        lr=1e-3,
        weight_decay=0.04,
        step_seconds=0.1,
        wait_seconds=0.01,
        batch=batch,
    )


def _check_values(values: dict[str, float]) -> None:
    assert values, "the monitor yields nothing"
    for name, value in values.items():
        assert name.count("/") == 1, f'"{name}" is not of the form area/name'
        assert isinstance(value, float) and math.isfinite(value), f"{name} is {value!r}; expected a finite float"
