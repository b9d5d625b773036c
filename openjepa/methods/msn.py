"""MSN (Assran et al., ECCV 2022): a view with dropped patches should match the prototypes of another, whole view.

The whole view goes through a moving average; its assignment is sharpened and balanced (Sinkhorn). A second loss spreads the mean
assignment of a batch over all prototypes. Patches are dropped before the encoder, so masked views are cheap.
"""

import copy
import math
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from openjepa.core import schedule
from openjepa.core.contracts import Method, methods
from openjepa.core.numbers import Above, NotNegative, Positive, Share
from openjepa.core.types import Augmentation, Batch, EncoderNeeds, LossOutput, Step
from openjepa.machine import distributed
from openjepa.machine.precision import full_precision
from openjepa.models import heads
from openjepa.models.multicrop import NUM_GLOBAL, MultiCrop
from openjepa.models.vit import VisionTransformer
from openjepa.nn import ema

JITTER = (0.4, 0.4, 0.4, 0.1)  # 0.8, 0.8, 0.8, 0.2 at strength 0.5
# Target view and first anchor are alike: blur with chance 0.5, no solarising.
CROPS = MultiCrop(
    num_local=10,
    global_scale=(0.3, 1.0),
    local_scale=(0.05, 0.3),
    jitter=JITTER,
    blur=(0.5, 0.5, 0.5),
    solarise=0.0,
)


@methods.register("msn")
class MSN(Method):
    """The first view is the target's, the others are anchors.

    >>> import openjepa, torch
    >>> from openjepa.core.types import Batch, Step
    >>> method = openjepa.method("msn", "vit-nano/8", image_size=32, crops={"num_local": 2})
    >>> step = Step(index=0, total=10, seed=0, batch_size=2, rows=slice(0, 2))
    >>> views = tuple(torch.randn(2, 3, *view.size) for view in method.augmentations)
    >>> output = method.training_step(Batch(views[0], torch.arange(2), views), step)
    >>> method.visible(step).shape, sorted(output.metrics)  # the large anchor loses 2 of 16 patches
    (torch.Size([14]), ['train/agreement', 'train/information', 'train/narrowness'])
    """

    needs = EncoderNeeds(class_token=True, stretched_positions=True, pools_class=True)

    def __init__(
        self,
        encoder: VisionTransformer,
        *,
        crops: MultiCrop = CROPS,
        drop: Annotated[float, Field(ge=0, lt=1)] = 0.15,  # share of the patches that the large anchor loses
        num_prototypes: Positive = 1024,
        hidden: Positive | None = None,  # None: 2048 as published, below ViT-S 4 times the width
        output: Positive = 256,
        temperature: Above = 0.1,
        sharpening: Above = 0.25,
        sinkhorn_rounds: Annotated[int, Field(ge=0)] = 3,
        spread: NotNegative = 1.0,  # weight of the loss that spreads the mean assignment
        momentum: tuple[Share, Share] = (0.996, 1.0),
    ) -> None:
        super().__init__()
        self.anchor = encoder
        hidden = hidden or heads.usual_hidden(encoder.dim)
        self.anchor_head = heads.projector([encoder.dim, hidden, hidden, output], activation=nn.GELU, has_bias=True)
        self.target = copy.deepcopy(encoder).requires_grad_(False)
        self.target_head = copy.deepcopy(self.anchor_head).requires_grad_(False)
        limit = output**-0.5
        # Flat, because one-dimensional parameters have no weight decay, and prototypes must have none.
        self.prototypes = nn.Parameter(torch.empty(num_prototypes * output).uniform_(-limit, limit))
        self.output = output
        self.drop = drop
        self.views = crops.views(encoder)
        self.temperature = temperature
        self.sharpening = sharpening
        self.sinkhorn_rounds = sinkhorn_rounds
        self.spread = spread
        self.momentum = momentum

    @property
    def augmentations(self) -> tuple[Augmentation, ...]:
        return self.views  # the first is the target

    def training_step(self, batch: Batch, step: Step) -> LossOutput:
        targets = self.targets(batch.views[0])  # [B, prototypes]
        predictions = self.predict(batch.views[1], batch.views[NUM_GLOBAL:], step)  # [anchors, B, prototypes]
        agreement = -(targets * predictions.clamp(min=1e-12).log()).sum(dim=-1).mean()
        mean = distributed.mean(predictions.mean(dim=(0, 1)))  # [prototypes]
        narrowness = math.log(len(mean)) + (mean * mean.clamp(min=1e-12).log()).sum()  # 0: all are used equally
        parts = {"train/agreement": agreement.detach(), "train/narrowness": narrowness.detach()}
        parts["train/information"] = heads.information(targets)
        return LossOutput(agreement + self.spread * narrowness, parts)

    @torch.no_grad()
    def targets(self, images: Tensor) -> Tensor:
        """[B, 3, h, w] -> [B, prototypes], probabilities: sharpened, then balanced over the global batch."""
        vectors = self.target_head(self.target.encode(images)[:, 0])
        # The power 1/T of a softmax is a softmax at T times the temperature.
        sharp = self.assign(vectors, self.temperature * self.sharpening)
        return sinkhorn(sharp, self.sinkhorn_rounds)

    def predict(self, large: Tensor, small: tuple[Tensor, ...], step: Step) -> Tensor:
        """-> [anchors, B, prototypes], probabilities."""
        # the same patches for the whole batch
        keep = self.visible(step).to(large.device).expand(len(large), -1)  # [B, K]
        scales = self.anchor.draw_drop_path(step, "drop path large")
        tokens = [self.anchor.encode(large, keep, branch_scales=scales)[:, 0]]  # [B, D]
        if small:
            scales = self.anchor.draw_drop_path(step, "drop path small", len(small), by_view=True)
            tokens.append(self.anchor.encode(torch.cat(small), branch_scales=scales)[:, 0])  # [views·B, D]
        vectors = self.anchor_head(torch.cat(tokens))
        return self.assign(vectors, self.temperature).unflatten(0, (1 + len(small), -1))

    def visible(self, step: Step) -> Tensor:
        """-> [K]: patches of the large anchor that are not dropped."""
        num_patches = self.anchor.grid.size
        order = torch.randperm(num_patches, generator=step.generator("masks"))
        return order[: max(round((1 - self.drop) * num_patches), 1)].sort().values

    def assign(self, vectors: Tensor, temperature: float) -> Tensor:
        """[B, D] -> [B, prototypes], probabilities from cosines."""
        prototypes = F.normalize(self.prototypes.unflatten(0, (-1, self.output)).float(), dim=1)
        with full_precision(vectors):
            return (F.normalize(vectors.float(), dim=1) @ prototypes.T / temperature).softmax(dim=-1)

    def after_update(self, step: Step) -> None:
        # The published schedule is 1.25 times as long as the run, so it never reaches its end.
        momentum = schedule.linear(step.progress / 1.25, *self.momentum)
        ema.follow(self.target, self.anchor, momentum)
        ema.follow(self.target_head, self.anchor_head, momentum)

    @property
    def encoder(self) -> nn.Module:
        return self.target

    @property
    def learner(self) -> nn.Module:
        return self.anchor

    @classmethod
    def complete(cls, options: dict[str, Any], encoder: nn.Module) -> dict[str, Any]:
        assert isinstance(encoder, VisionTransformer)
        hidden = options["hidden"] or heads.usual_hidden(encoder.dim)
        return {**options, "crops": options["crops"].completed(encoder), "hidden": hidden}


def sinkhorn(assignments: Tensor, num_rounds: int) -> Tensor:
    """[B, P] probabilities -> the same, rescaled so that the rows of all processes use every prototype equally (Sinkhorn)."""
    if not num_rounds:
        return assignments
    for _ in range(num_rounds):
        usage = distributed.mean(assignments.sum(dim=0))  # [P]; a common factor does not matter
        assignments = assignments / usage.clamp(min=1e-12)
        assignments = assignments / assignments.sum(dim=1, keepdim=True)
    return assignments
