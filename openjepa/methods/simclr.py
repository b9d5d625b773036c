"""SimCLR v2 (Chen et al., NeurIPS 2020): two views of an image should be more alike than views of different images.

Negatives are all other views of the global batch, over all processes. Published with LARS and ResNets; here the optimiser is
AdamW for every method, and the encoder may be a ViT. Fine-tuning starts from the first layer of the head, as published.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from openjepa.core.contracts import Method, methods
from openjepa.core.numbers import Above, NotNegative, Positive, Share
from openjepa.core.types import Augmentation, Batch, LossOutput, Step
from openjepa.machine import distributed
from openjepa.machine.precision import full_precision
from openjepa.models import heads
from openjepa.models.resnet import ResNet
from openjepa.models.vit import VisionTransformer

COLOURS = (0.8, 0.8, 0.8, 0.2)  # brightness, contrast, saturation, hue at strength 1


@methods.register("simclr")
class SimCLR(Method):
    """Fine-tuning starts from `tuned_encoder`.

    >>> import openjepa, torch
    >>> from openjepa.core.types import Batch, Step
    >>> method = openjepa.method("simclr", "vit-nano/8", image_size=32)
    >>> step = Step(index=0, total=10, seed=0, batch_size=2, rows=slice(0, 2))
    >>> views = tuple(torch.randn(2, 3, *view.size) for view in method.augmentations)
    >>> output = method.training_step(Batch(views[0], torch.arange(2), views), step)
    >>> output.loss.shape, method.tuned_encoder(views[0]).shape
    (torch.Size([]), torch.Size([2, 64]))
    """

    takes_resnet = True

    def __init__(
        self,
        encoder: VisionTransformer | ResNet,
        *,
        temperature: Above = 0.1,
        output: Positive = 128,
        scale: tuple[float, float] = (0.08, 1.0),
        strength: NotNegative = 1.0,  # of the colour jitter; 0.5 for CIFAR
        blur: Share = 0.5,  # 0 for CIFAR
    ) -> None:
        super().__init__()
        self.backbone = encoder
        dim = encoder.dim
        self.head = heads.projector([dim, dim, dim, output], ends_with_norm=True)
        self.temperature = temperature
        self.view = Augmentation(encoder.image_size, scale=scale, jitter=_scaled(COLOURS, strength), blur_chance=blur)

    @property
    def augmentations(self) -> tuple[Augmentation, ...]:
        return (self.view, self.view)

    def training_step(self, batch: Batch, step: Step) -> LossOutput:
        both = torch.cat(batch.views)  # [2·B, 3, h, w], so that batch norm sees both views
        scales = self.backbone.draw_drop_path(step, number=2, by_view=True)
        first, second = self.head(self.backbone.pool(both, scales)).float().chunk(2)  # [B, D] each
        return LossOutput(nt_xent(first, second, self.temperature))

    @property
    def encoder(self) -> nn.Module:
        return self.backbone

    @property
    def tuned_encoder(self) -> nn.Module:
        return WithFirstLayer(self.backbone, self.head)


def nt_xent(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """[B, D] twice -> scalar: cross-entropy of finding a view's partner among all views of all processes, both directions added."""
    ours = F.normalize(torch.cat([first, second]), dim=1)  # [2·B, D]
    theirs = distributed.concatenate(ours)  # [processes·2·B, D]
    start, size = distributed.rank() * len(ours), len(first)
    with full_precision(ours):
        scores = ours @ theirs.T / temperature  # [2·B, processes·2·B]
    rows = torch.arange(len(ours), device=ours.device)
    scores[rows, start + rows] = -torch.inf  # a view is not compared with itself
    return 2 * F.cross_entropy(scores, start + (rows + size) % (2 * size))


class WithFirstLayer(nn.Module):
    """An encoder and the first layer of its head: [B, 3, h, w] -> [B, D]."""

    def __init__(self, backbone: VisionTransformer | ResNet, head: nn.Sequential) -> None:
        super().__init__()
        self.backbone = backbone
        self.layer = head[:3]  # linear, norm, activation
        self.image_size = backbone.image_size

    def forward(self, images: Tensor) -> Tensor:
        return self.layer(self.backbone.pool(images))


def _scaled(jitter: tuple[float, float, float, float], strength: float) -> tuple[float, float, float, float]:
    brightness, contrast, saturation, hue = (strength * value for value in jitter)
    return brightness, contrast, saturation, hue
