"""What every registered method must do; a new one is tested here before its author writes a test."""

import copy
import math

import pytest
import torch

from conftest import TINY
from openjepa.core import options
from openjepa.core.contracts import Method, methods
from openjepa.core.types import Batch, Step
from openjepa.models.vit import VisionTransformer

NAMES = methods.names()


def make(name: str) -> Method:
    torch.manual_seed(0)
    encoder = VisionTransformer(TINY, patch_size=4, image_size=(32, 32), patch_init=0.2)
    return options.build(methods, {"name": name}, encoder).train()


def batch(number: int = 8) -> Batch:
    return Batch(torch.randn(number, 3, 32, 32, generator=torch.Generator().manual_seed(1)), torch.arange(number))


def step(index: int = 0, total: int = 30) -> Step:
    return Step(index, total, seed=3, batch_size=8, rows=slice(0, 8))


def train(method: Method, num_steps: int) -> list[float]:
    optimizer = torch.optim.AdamW([p for p in method.parameters() if p.requires_grad], lr=3e-3)
    losses = []
    for index in range(num_steps):
        loss = method(batch(), step(index)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        method.after_update(step(index))
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_is_finite_and_falls_on_a_tiny_run(name: str) -> None:
    losses = train(make(name), 30)
    assert all(math.isfinite(loss) for loss in losses)
    assert sum(losses[-5:]) < 0.95 * sum(losses[:5])


@pytest.mark.parametrize("name", NAMES)
def test_every_trained_parameter_receives_a_gradient_and_no_other_does(name: str) -> None:
    method = make(name)
    method(batch(), step()).loss.backward()
    for parameter_name, parameter in method.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, parameter_name
        else:
            assert parameter.grad is None, parameter_name


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_a_function_of_its_index(name: str) -> None:
    method = make(name)
    first, again, other = (copy.deepcopy(method)(batch(), step(index)).loss for index in (4, 4, 5))
    assert torch.equal(first, again) and not torch.equal(first, other)


@pytest.mark.parametrize("name", NAMES)
def test_the_state_survives_a_round_trip(name: str) -> None:
    """Training on after loading the state gives what training on without it gives, bit for bit."""
    method = make(name)
    train(method, 3)
    other = make(name)
    other.load_state_dict(method.state_dict())
    assert train(method, 2) == train(other, 2)


@pytest.mark.parametrize("name", NAMES)
def test_the_encoder_maps_images_to_tokens_and_vectors(name: str) -> None:
    encoder = make(name).encoder
    assert encoder(batch().images).shape == (8, 64, 16)
    assert encoder.pool(batch().images).shape == (8, 16)
