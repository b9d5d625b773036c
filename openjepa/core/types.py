"""The values that travel between parts. Letters for sizes, used in every shape comment of this project:

B images in a batch · N patches of an image · K context patches · M target blocks · T patches per block
D encoder width · P predictor width · S samples of a data set · h, w pixels
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from openjepa.core import seeding


class Grid(NamedTuple):
    """Patches of an image, counted in rows and columns; a patch's index is row * width + column."""

    height: int
    width: int

    @property
    def size(self) -> int:
        return self.height * self.width

    def __str__(self) -> str:
        return f"{self.height}×{self.width}"


@dataclass(frozen=True)
class Masks:
    """Which patches are seen and which must be predicted, as patch indices. A context never contains a target patch."""

    context: Tensor  # [B, K] int64
    targets: Tensor  # [B, M, T] int64
    context_valid: Tensor | None = None  # [B, K] bool; False marks padding; None: no padding

    def rows(self, rows: slice) -> "Masks":
        """The masks of some images of the batch."""
        valid = None if self.context_valid is None else self.context_valid[rows]
        return Masks(self.context[rows], self.targets[rows], valid)

    def to(self, device: torch.device) -> "Masks":
        valid = None if self.context_valid is None else self.context_valid.to(device)
        return Masks(self.context.to(device), self.targets.to(device), valid)


@dataclass(frozen=True)
class Sample:
    """One image of a source with its labels (none for an unlabelled folder)."""

    image: Tensor  # [3, h, w] uint8
    labels: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Augmentation:
    """How one view of an image is made: a random crop, then random changes of its colours (SimCLR, section 3)."""

    size: tuple[int, int]  # height and width of the view
    scale: tuple[float, float] = (0.08, 1.0)  # share of the image's area
    aspect: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = True
    jitter: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)  # brightness, contrast, saturation, hue
    jitter_chance: float = 0.8
    grey_chance: float = 0.2
    blur_chance: float = 0.0
    solarise_chance: float = 0.0


@dataclass(frozen=True)
class EncoderNeeds:
    """What a method needs from a vision transformer besides patch tokens; I-JEPA needs nothing."""

    class_token: bool = False  # one more token, which can learn to summarise the image
    mask_token: bool = False  # a learned token that replaces hidden patches
    # The positions of a small crop span the range of the usual grid, as interpolated ones would.
    stretched_positions: bool = False
    pools_class: bool = False  # whether the class token, not the mean over patches, is the image's representation


@dataclass(frozen=True)
class Batch:
    """What a method sees: normalised images of one size, and where they came from."""

    images: Tensor  # [B, 3, h, w] float32; with views the first of them
    index: Tensor  # [B] int64, index of each image in the source
    views: tuple[Tensor, ...] = ()  # [B, 3, h, w] each, one for each of the method's augmentations


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of training. Every draw is a function of (seed, purpose, step, index in the global batch)."""

    index: int  # optimiser steps done before this one
    total: int  # of the run, as planned now
    seed: int
    batch_size: int  # images in the global batch, over all processes and accumulation rounds
    rows: slice  # the part of the global batch that this call works on
    paced: float | None = None  # the progress of a run whose length was revised, see core/pace.py

    @property
    def progress(self) -> float:
        """In [0, 1): what every schedule is a function of."""
        return self.index / self.total if self.paced is None else self.paced

    def generator(self, purpose: str) -> torch.Generator:
        """A fresh generator for the whole global batch: draw for `batch_size` images, then take `rows`."""
        return seeding.generator(self.seed, purpose, self.index)


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """What a method predicted for hidden patches, beside the truth; detached. With C contexts for an image B is B·C."""

    predicted: Tensor  # [B, M, T, D]
    target: Tensor  # [B, M, T, D]
    index: Tensor  # [B, M, T] int64, which patches


@dataclass(frozen=True)
class LossOutput:
    """What a training step returns: the loss, numbers to log, and what monitors may look at."""

    loss: Tensor  # scalar
    # Tensors are read only when a monitor logs them: other steps do not sync the GPU.
    metrics: Mapping[str, float | Tensor] = field(default_factory=dict)
    predictions: Predictions | None = None


@dataclass(frozen=True)
class Features:
    """Frozen representations of a labelled set, the input of probes."""

    vectors: Tensor  # [S, D] float32, of the last block
    labels: Tensor  # [S] int64
    layers: Tensor | None = None  # [S, L·D] of the last L blocks, earliest first; None: there is only the last
    views: tuple[Tensor, ...] = ()  # each like `layers` (or `vectors`), of another random crop of the same images

    def rows(self, index: Tensor) -> "Features":
        """Some of the samples; no copy if the index is all of them in order."""
        if torch.equal(index, torch.arange(len(self.labels))):
            return self
        layers = None if self.layers is None else self.layers[index]
        return Features(self.vectors[index], self.labels[index], layers, tuple(view[index] for view in self.views))
