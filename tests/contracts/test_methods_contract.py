"""What every registered method must do; a new one is tested here before its author writes a test."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F

from conftest import TINY
from openjepa.core import schema, seeding
from openjepa.core.contracts import Method, methods
from openjepa.core.types import Batch, Step
from openjepa.models.vit import VisionTransformer

NAMES = methods.names()


def make(name: str) -> Method:
    torch.manual_seed(0)
    encoder = VisionTransformer(TINY, patch_size=4, image_size=(32, 32), patch_init=0.2, needs=methods[name].needs)
    return schema.build(methods, {"name": name}, encoder).train()


def batch(method: Method, number: int = 8) -> Batch:
    """Noise; the views of an image are the same noise, shrunk, with a little of their own."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(number, 3, 32, 32, generator=generator)
    shrunk = [F.interpolate(images, size=view.size, mode="area") for view in method.augmentations]
    views = tuple(view + 0.3 * torch.randn(view.shape, generator=generator) for view in shrunk)
    return Batch(images, torch.arange(number), views)


def step(index: int = 0, total: int = 30) -> Step:
    return Step(index=index, total=total, seed=3, batch_size=8, rows=slice(0, 8))


def train(method: Method, num_steps: int) -> list[float]:
    optimizer = torch.optim.AdamW([p for p in method.parameters() if p.requires_grad], lr=3e-3)
    losses = []
    for index in range(num_steps):
        loss = method(batch(method), step(index)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        method.after_update(step(index))
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_is_finite_and_falls_on_a_tiny_run(name: str) -> None:
    """Against the targets and centres of the end: with those moving, the loss of a method that learns may well rise."""
    method = make(name)
    first = {key: value.detach().clone() for key, value in method.named_parameters() if value.requires_grad}
    losses = train(method, 30)
    assert all(math.isfinite(loss) for loss in losses)
    trained = method(batch(method), step(29)).loss.item()
    method.load_state_dict(first, strict=False)
    assert trained < 0.99 * method(batch(method), step(29)).loss.item()


@pytest.mark.parametrize("name", NAMES)
def test_every_trained_parameter_receives_a_gradient_and_no_other_does(name: str) -> None:
    method = make(name)
    method(batch(method), step(5)).loss.backward()  # at first some keep a part of their head still
    for parameter_name, parameter in method.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, parameter_name
        else:
            assert parameter.grad is None, parameter_name


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_a_function_of_its_index(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, purposes = make(name), []
    drawn = seeding.generator
    monkeypatch.setattr(seeding, "generator", lambda *given: purposes.append(given[1]) or drawn(*given))
    first, again, other = (copy.deepcopy(method)(batch(method), step(index)).loss for index in (14, 14, 15))
    assert torch.equal(first, again)
    if purposes:
        assert not torch.equal(first, other), f"{purposes[0]} is drawn anew in every step"


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
    method = make(name)
    images = batch(method).images
    assert method.encoder(images).shape == (8, 64, 16) and method.learner(images).shape == (8, 64, 16)
    assert method.encoder.pool(images).shape == (8, 16)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_trained_follows_only_after_the_update(name: str) -> None:
    """Teachers, targets and centres stay during a step and move after it, if there are any."""
    method = make(name)
    before = copy.deepcopy(method.state_dict())
    method(batch(method), step(5)).loss.backward()
    of_batch_norm = ("running_mean", "running_var", "num_batches_tracked")
    for key, value in method.state_dict().items():
        assert torch.equal(value, before[key]) or key.endswith(of_batch_norm), key
