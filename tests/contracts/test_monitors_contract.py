"""What every registered monitor must do: yield ("area/name", number) and change nothing."""

import math

import pytest
import torch

from openjepa.core.contracts import View, monitors
from openjepa.core.types import Batch, Step
from openjepa.methods.ijepa import IJEPA

NAMES = monitors.names()


def view(encoder) -> View:
    method = IJEPA(encoder)
    step = Step(index=5, total=100, seed=0, batch_size=8, rows=slice(0, 8))
    batch = Batch(torch.randn(8, 3, 32, 32), torch.arange(8))
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


@pytest.mark.parametrize("name", NAMES)
def test_a_monitor_yields_paths_and_finite_numbers(name: str, tiny_encoder) -> None:
    values = dict(monitors[name]()(view(tiny_encoder)))
    assert values
    for path, value in values.items():
        assert path.count("/") == 1 and isinstance(value, float) and math.isfinite(value), path


@pytest.mark.parametrize("name", NAMES)
def test_a_monitor_changes_no_weight_and_no_random_state(name: str, tiny_encoder) -> None:
    seen = view(tiny_encoder)
    weights = {key: value.clone() for key, value in seen.method.state_dict().items()}
    random_state, was_training = torch.get_rng_state(), seen.method.training
    list(monitors[name]()(seen))
    assert torch.equal(random_state, torch.get_rng_state()) and seen.method.training == was_training
    for key, value in seen.method.state_dict().items():
        assert torch.equal(value, weights[key]), key
