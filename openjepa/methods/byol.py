"""BYOL (Grill et al., NeurIPS 2020): predict what a moving average of the network sees in another view. No negatives.

Published with LARS and ResNets; here the optimiser is AdamW for every method (a port to ViT collapsed with LARS).
"""

import copy
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from openjepa.core import schedule
from openjepa.core.contracts import Method, methods
from openjepa.core.numbers import Positive, Share
from openjepa.core.types import Augmentation, Batch, LossOutput, Step
from openjepa.models import heads
from openjepa.models.resnet import ResNet
from openjepa.models.vit import VisionTransformer
from openjepa.nn import ema

JITTER = (0.4, 0.4, 0.2, 0.1)
PUBLISHED_HIDDEN = 4096


@methods.register("byol")
class BYOL(Method):
    """The target network follows in `after_update`.

    >>> import openjepa, torch
    >>> from openjepa.core.types import Batch, Step
    >>> method = openjepa.method("byol", "vit-nano/8", image_size=32)
    >>> step = Step(index=0, total=10, seed=0, batch_size=2, rows=slice(0, 2))
    >>> views = tuple(torch.randn(2, 3, *view.size) for view in method.augmentations)
    >>> output = method.training_step(Batch(views[0], torch.arange(2), views), step)
    >>> bool(0 < output.loss < 8), method.encoder is method.online
    (True, True)
    """

    takes_resnet = True

    def __init__(
        self,
        encoder: VisionTransformer | ResNet,
        *,
        hidden: Positive | None = None,  # None: 4096 as published, below ViT-S 8 times the width
        output: Positive = 256,
        momentum: Share = 0.996,  # at the start; it ends at 1
        scale: tuple[float, float] = (0.08, 1.0),
        blur: tuple[Share, Share] = (1.0, 0.1),  # of view 1 and of view 2
        solarise: tuple[Share, Share] = (0.0, 0.2),
    ) -> None:
        super().__init__()
        self.online = encoder
        hidden = hidden or heads.usual_hidden(encoder.dim, PUBLISHED_HIDDEN)
        self.projector = heads.projector([encoder.dim, hidden, output])
        self.predictor = heads.projector([output, hidden, output])
        self.target = copy.deepcopy(encoder).requires_grad_(False)
        self.target_projector = copy.deepcopy(self.projector).requires_grad_(False)
        self.momentum = momentum
        view = Augmentation(encoder.image_size, scale=scale, jitter=JITTER)
        self.views = tuple(
            replace(view, blur_chance=chance, solarise_chance=other)
            for chance, other in zip(blur, solarise, strict=True)
        )

    @property
    def augmentations(self) -> tuple[Augmentation, ...]:
        return self.views

    def training_step(self, batch: Batch, step: Step) -> LossOutput:
        first, second = batch.views
        loss = distance(self.predict(first, step, "drop path 1"), self.project(second))
        return LossOutput(loss + distance(self.predict(second, step, "drop path 2"), self.project(first)))

    def predict(self, images: Tensor, step: Step, purpose: str) -> Tensor:
        """[B, 3, h, w] -> [B, D]; each view has its own batch statistics, as published."""
        scales = self.online.draw_drop_path(step, purpose)
        return self.predictor(self.projector(self.online.pool(images, scales)))

    @torch.no_grad()
    def project(self, images: Tensor) -> Tensor:
        """[B, 3, h, w] -> [B, D]"""
        return self.target_projector(self.target.pool(images))

    def after_update(self, step: Step) -> None:
        momentum = schedule.cosine(step.progress, self.momentum, 1.0)
        ema.follow(self.target, self.online, momentum)
        ema.follow(self.target_projector, self.projector, momentum)

    @property
    def encoder(self) -> nn.Module:
        return self.online

    @classmethod
    def complete(cls, options: dict[str, Any], encoder: nn.Module) -> dict[str, Any]:
        assert isinstance(encoder, VisionTransformer | ResNet)
        return {**options, "hidden": options["hidden"] or heads.usual_hidden(encoder.dim, PUBLISHED_HIDDEN)}


def distance(predictions: Tensor, targets: Tensor) -> Tensor:
    """[B, D] twice -> scalar: the squared distance of unit vectors, 2 − 2·cosine."""
    return 2 - 2 * F.cosine_similarity(predictions.float(), targets.float()).mean()
