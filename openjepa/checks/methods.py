"""What every method promises, tried on a tiny encoder and eight images of noise."""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

from openjepa.core import schema
from openjepa.core.contracts import Encoder, Method
from openjepa.core.types import Batch, EncoderNeeds, Step
from openjepa.models.sizes import Size
from openjepa.models.vit import VisionTransformer

TINY = Size(dim=16, depth=2, num_heads=2, mlp_hidden=32, predictor_width=8, predictor_depth=2)
IMAGE_SIZE, PATCH_SIZE, NUM_PATCHES = 32, 4, 64
NUM_IMAGES, NUM_STEPS = 8, 30
OF_BATCH_NORM = ("running_mean", "running_var", "num_batches_tracked")  # these move during a step


def method(cls: type[Method], options: Mapping[str, Any] | None = None) -> None:
    """Builds the method anew for each promise; `options` are those of its config section.

    >>> from openjepa import checks
    >>> from openjepa.methods.mae import MAE
    >>> checks.method(MAE, {"masks": {"target_scale": 0.6}})
    """
    for check in (_check_encoder, _check_gradients, _check_step, _check_still, _check_learns):
        check(build(cls, options))
    _check_state(build(cls, options), build(cls, options))


def tiny_encoder(needs: EncoderNeeds = EncoderNeeds()) -> VisionTransformer:  # noqa: B008 - frozen
    """32×32 pixels, 64 patches, width 16; the same weights every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return VisionTransformer(
            TINY, patch_size=PATCH_SIZE, image_size=(IMAGE_SIZE, IMAGE_SIZE), patch_init=0.2, needs=needs
        )


def build(cls: type[Method], options: Mapping[str, Any] | None = None) -> Method:
    """The method on a tiny encoder, with the same weights every time."""
    with torch.random.fork_rng(devices=[]):
        encoder = tiny_encoder(cls.needs)
        torch.manual_seed(1)
        part: Any = cls  # a method's constructor has arguments of its own
        return part(encoder, **schema.resolve(cls, options or {}, where="method")).train()


def batch(method: Method, number: int = NUM_IMAGES) -> Batch:
    """Noise; the views of an image are the same noise, resized, plus a little noise of their own."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(number, 3, IMAGE_SIZE, IMAGE_SIZE, generator=generator)
    resized = [F.interpolate(images, size=view.size, mode="area") for view in method.augmentations]
    views = tuple(view + 0.3 * torch.randn(view.shape, generator=generator) for view in resized)
    return Batch(images, torch.arange(number), views)


@dataclass(frozen=True)
class NotedStep(Step):
    """A step that notes what its generators are for."""

    purposes: list[str] = field(default_factory=list)

    def generator(self, purpose: str) -> torch.Generator:
        self.purposes.append(purpose)
        return super().generator(purpose)


def step(index: int = 0) -> NotedStep:
    return NotedStep(index=index, total=NUM_STEPS, seed=3, batch_size=NUM_IMAGES, rows=slice(0, NUM_IMAGES))


def train(method: Method, num_steps: int) -> list[float]:
    """-> the loss of each step"""
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


def _check_encoder(method: Method) -> None:
    images = batch(method).images
    tokens, vectors = (NUM_IMAGES, NUM_PATCHES, TINY.dim), (NUM_IMAGES, TINY.dim)
    for name, network in (("encoder", method.encoder), ("learner", method.learner)):
        shape = tuple(network(images).shape)
        assert shape == tokens, f"{name}(images) is {list(shape)}; expected [B, N, D] = {list(tokens)}"
    assert isinstance(method.encoder, Encoder), "the encoder has no pool(images)"
    shape = tuple(method.encoder.pool(images).shape)
    assert shape == vectors, f"encoder.pool(images) is {list(shape)}; expected [B, D] = {list(vectors)}"


def _check_gradients(method: Method) -> None:
    method(batch(method), step(5)).loss.backward()  # DINO's prototypes have no gradient in the first steps
    for name, parameter in method.named_parameters():
        has_gradient = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
        if parameter.requires_grad:
            assert has_gradient, f"{name} gets no gradient; use it in the loss or set requires_grad_(False)"
        else:
            assert parameter.grad is None, f"{name} gets a gradient although requires_grad is False"


def _check_step(method: Method) -> None:
    steps = [step(14), step(14), step(15)]
    first, again, other = (copy.deepcopy(method)(batch(method), one).loss for one in steps)
    assert torch.equal(first, again), "one step computed twice gives two losses; draw from step.generator(purpose) only"
    if purposes := steps[0].purposes:
        assert not torch.equal(first, other), f'the next step has the same draws for "{purposes[0]}"'


def _check_still(method: Method) -> None:
    """Teachers, targets and centers stay as they are during a step; after_update moves them."""
    before = copy.deepcopy(method.state_dict())
    method(batch(method), step(5)).loss.backward()
    for name, value in method.state_dict().items():
        is_still = torch.equal(value, before[name]) or name.endswith(OF_BATCH_NORM)
        assert is_still, f"{name} changes during the step; move it in after_update"


def _check_state(method: Method, other: Method) -> None:
    """Training after loading a state gives what training without the detour gives, bit for bit."""
    train(method, 3)
    other.load_state_dict(method.state_dict())
    is_same = train(method, 2) == train(other, 2)
    assert is_same, "a resumed run differs from an uninterrupted one; hold all state in parameters and buffers"


def _check_learns(method: Method) -> None:
    """Against the targets and centers of the end: while these move, the loss of a method that learns may well rise."""
    first = {name: value.detach().clone() for name, value in method.named_parameters() if value.requires_grad}
    losses = train(method, NUM_STEPS)
    assert all(math.isfinite(loss) for loss in losses), "the loss is not finite"
    trained = method(batch(method), step(NUM_STEPS - 1)).loss.item()
    method.load_state_dict(first, strict=False)
    untrained = method(batch(method), step(NUM_STEPS - 1)).loss.item()
    assert trained < 0.99 * untrained, (
        f"{NUM_STEPS} steps on one batch leave the loss at {trained:.4g} of {untrained:.4g}"
    )
