"""Small networks on top of an encoder, in whose output methods compare views; not used after training."""

from dataclasses import dataclass, replace
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from openjepa.core.numbers import Positive
from openjepa.machine.precision import full_precision
from openjepa.models.batchnorm import BatchNorm
from openjepa.models.vit import VisionTransformer
from openjepa.nn import init


def projector(
    dims: list[int], *, activation: type[nn.Module] = nn.ReLU, has_bias: bool = False, ends_with_norm: bool = False
) -> nn.Sequential:
    """Linear layers through these widths, each but the last followed by batch norm and an activation.

    `has_bias` is about the last layer; `ends_with_norm` adds a batch norm without bias behind it, as in SimCLR v2.
    """
    layers: list[nn.Module] = []
    for narrow, wide in pairwise(dims[:-1]):
        layers += [nn.Linear(narrow, wide, bias=False), BatchNorm(wide), activation()]  # the norm has a bias
    layers.append(nn.Linear(dims[-2], dims[-1], bias=has_bias))
    if ends_with_norm:
        norm = BatchNorm(dims[-1])
        norm.bias.requires_grad_(False)  # stays 0
        layers.append(norm)
    return nn.Sequential(*layers)


PUBLISHED_HIDDEN = 2048
PUBLISHED_FROM = 384  # encoder width, ViT-S; for smaller encoders heads of this size would dominate the cost
UNIT_FROM = 768  # encoder width, ViT-B
SMALL_PROTOTYPES = 1024


def usual_hidden(dim: int, published: int = PUBLISHED_HIDDEN) -> int:
    """The hidden width of a head for an encoder of this width."""
    return published if dim >= PUBLISHED_FROM else published // 512 * dim


@torch.no_grad()
def information(choices: Tensor) -> Tensor:
    """[..., P] probabilities -> mutual information of prototype and image, in nats: 0 if all rows are alike."""
    rows = choices.flatten(0, -2)
    return torch.special.entr(rows.mean(dim=0)).sum() - torch.special.entr(rows).sum(dim=-1).mean()


@dataclass(frozen=True)
class PrototypeOptions:
    published: Positive = 65536  # prototypes for small and larger encoders
    num_prototypes: Positive | None = None  # None: as published, below small 1024
    hidden: Positive | None = None  # None: 2048, below small 4 times the encoder's width
    bottleneck: Positive = 256
    is_unit: bool | None = None  # the published norm_last_layer; None: as published, from base on
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, never changed

    def completed(self, encoder: VisionTransformer) -> "PrototypeOptions":
        usual = self.published if encoder.dim >= PUBLISHED_FROM else SMALL_PROTOTYPES
        return replace(
            self,
            num_prototypes=self.num_prototypes or usual,
            hidden=self.hidden or usual_hidden(encoder.dim),
            is_unit=encoder.dim >= UNIT_FROM if self.is_unit is None else self.is_unit,
        )

    def build(self, encoder: VisionTransformer) -> "PrototypeHead":
        options = self.completed(encoder)
        assert options.hidden and options.num_prototypes and options.is_unit is not None
        return PrototypeHead(
            encoder.dim,
            hidden=options.hidden,
            bottleneck=options.bottleneck,
            num_prototypes=options.num_prototypes,
            is_unit=options.is_unit,
        )


class PrototypeHead(nn.Module):
    """DINO's head: three linear layers to a bottleneck, unit length, then scores against learned directions."""

    def __init__(self, dim: int, *, hidden: int, bottleneck: int, num_prototypes: int, is_unit: bool) -> None:
        super().__init__()
        self.num_prototypes = num_prototypes
        self.mlp = nn.Sequential(
            nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, bottleneck)
        )
        init.normal(self.mlp)
        limit = bottleneck**-0.5
        # Used at length 1.
        self.directions = nn.Parameter(torch.empty(num_prototypes, bottleneck).uniform_(-limit, limit))
        # The published `norm_last_layer`: all directions have length 1, or each learns a gain.
        self.gains = None if is_unit else nn.Parameter(torch.ones(num_prototypes))

    def forward(self, x: Tensor, *, is_frozen: bool = False) -> Tensor:
        """[..., D] -> [..., prototypes]"""
        return self.scores(self.vectors(x), is_frozen=is_frozen)

    def vectors(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., bottleneck], of length 1, in float32."""
        return F.normalize(self.mlp(x).float(), dim=-1)

    def scores(self, vectors: Tensor, *, is_frozen: bool = False) -> Tensor:
        """[..., bottleneck] -> [..., prototypes]; `is_frozen`: no gradient for the directions, as in DINO's first epoch."""
        with full_precision(vectors):  # scores are divided by temperatures of 0.04
            directions = F.normalize(self.directions.float(), dim=1)
            if self.gains is not None:
                directions = directions * self.gains[:, None]
            if is_frozen:
                directions = directions.detach() + 0 * directions  # no gradient, but DDP waits for one
            return vectors @ directions.T
