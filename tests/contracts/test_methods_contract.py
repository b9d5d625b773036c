"""Every registered method keeps its promises (openjepa/checks/methods.py), and a broken promise is noticed."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from openjepa import checks
from openjepa.core.contracts import Method, methods
from openjepa.core.types import Batch, LossOutput, Step
from openjepa.models.vit import VisionTransformer
from openjepa.nn.patches import patchify


@pytest.mark.parametrize("name", methods.names())
def test_a_registered_method_keeps_its_promises(name: str) -> None:
    checks.method(methods[name])


class Good(Method):
    """Predicts the pixels of noisy images."""

    def __init__(self, encoder: VisionTransformer, *, weight: float = 1.0) -> None:
        super().__init__()
        self.backbone = encoder
        self.decoder = nn.Linear(encoder.dim, encoder.patch_embed.in_features)
        self.weight = weight
        self.register_buffer("center", torch.zeros(()))

    def training_step(self, batch: Batch, step: Step) -> LossOutput:
        noise = self.noise(batch.images.shape, step)
        error = self.decoder(self.backbone(batch.images + noise)) - patchify(batch.images, self.backbone.patch_size)
        return LossOutput(self.weight * error.square().mean())

    def noise(self, shape: torch.Size, step: Step) -> torch.Tensor:
        return 0.1 * torch.randn(shape, generator=step.generator("noise"))

    @property
    def encoder(self) -> nn.Module:
        return self.backbone


class WithoutEnd(Good):
    def training_step(self, batch: Batch, step: Step) -> LossOutput:
        loss = super().training_step(batch, step).loss
        return LossOutput(loss / 0 if step.index == 20 else loss)


class Ascending(Good):
    def training_step(self, batch: Batch, step: Step) -> LossOutput:
        loss = super().training_step(batch, step).loss
        return LossOutput(2 * loss.detach() - loss)


class WithIdleWeights(Good):
    def __init__(self, encoder: VisionTransformer) -> None:
        super().__init__(encoder)
        self.idle = nn.Linear(2, 2)


class WithGlobalNoise(Good):
    def noise(self, shape: torch.Size, step: Step) -> torch.Tensor:
        return torch.randn(shape)


class WithOneNoise(Good):
    def noise(self, shape: torch.Size, step: Step) -> torch.Tensor:
        return super().noise(shape, replace(step, index=0))


class WithHiddenState(Good):
    def after_update(self, step: Step) -> None:
        self.weight *= 1.1


class MovingEarly(Good):
    def training_step(self, batch: Batch, step: Step) -> LossOutput:
        self.center += batch.images.mean()
        return super().training_step(batch, step)


class WithoutTokens(Good):
    @property
    def encoder(self) -> nn.Module:
        return nn.Sequential(self.backbone, nn.Flatten(1))


class WithoutPool(Good):
    @property
    def encoder(self) -> nn.Module:
        return nn.Sequential(self.backbone)


class WithWidePool(Good):
    @property
    def encoder(self) -> nn.Module:
        return Pooled(self.backbone)


class Pooled(nn.Sequential):
    def pool(self, images: torch.Tensor) -> torch.Tensor:
        return self(images).flatten(1)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (WithoutEnd, "not finite"),
        (Ascending, "leave the loss at"),
        (WithIdleWeights, "idle.weight gets no gradient"),
        (WithGlobalNoise, "twice gives two losses"),
        (WithOneNoise, 'the same draws for "noise"'),
        (WithHiddenState, "resumed run differs"),
        (MovingEarly, "center changes during the step"),
        (WithoutTokens, r"encoder\(images\) is \[8, 1024\]"),
        (WithoutPool, r"no pool\(images\)"),
        (WithWidePool, r"encoder.pool\(images\) is \[8, 1024\]"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_broken_promise_is_noticed(part: type[Method], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        checks.method(part)


def test_the_good_method_is_passed_with_and_without_options() -> None:
    checks.method(Good)
    checks.method(Good, {"weight": 2})
