"""What an encoder sees in an evaluation: a fixed crop of every image, or one of several random views."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from openjepa.core import seeding
from openjepa.data.crops.crop import (
    NO_DRAWS,
    Crop,
    CropDraws,
    CropRequest,
    RandomCrop,
    centre_boxes,
    draw_crops,
    min_size,
)

# Random views, as in the linear probes of I-JEPA and MAE: RandomResizedCrop's defaults, and flips.
VIEW_SCALE = (0.08, 1.0)
VIEW_ASPECT = (3 / 4, 4 / 3)


@dataclass(frozen=True)
class EvaluationCrop:
    """The centre of every image, or all of it. Each `Crop` method is described there."""

    size: tuple[int, int]  # height and width
    crop: float = 1.0  # side of the centred crop relative to the largest possible one; "resize 256, crop 224" is 0.875
    squeeze: bool = False  # the whole image with changed proportions, as VISSL does with CLEVR
    flip: bool = False

    def random(self) -> Crop:
        """The random counterpart: random crops and flips; of squeezed images flips only."""
        if self.squeeze:
            return replace(self, flip=True)
        return RandomCrop(size=self.size, scale=VIEW_SCALE, aspect=VIEW_ASPECT, flip=True)

    def view(self, number: int) -> Crop:
        """0: the fixed crop; 1, 2, …: random views, whose draws come from `requests`."""
        return self.random() if number else self

    def boxes(self, draws: CropDraws, sizes: Tensor) -> Tensor:
        if self.squeeze:
            return torch.cat([torch.zeros_like(sizes), sizes], dim=1).float()
        ratio = self.size[1] / self.size[0]
        boxes = centre_boxes(sizes, aspect=(ratio, ratio))
        inner = boxes[:, 2:] * self.crop
        return torch.cat([boxes[:, :2] + (boxes[:, 2:] - inner) / 2, inner], dim=1)

    def flips(self, draws: CropDraws) -> Tensor | None:
        return draws.flip < 0.5 if self.flip else None

    def min_size(self, true_size: tuple[int, int]) -> tuple[int, int]:
        if self.squeeze:
            return min(self.size[0], true_size[0]), min(self.size[1], true_size[1])
        height, width = (math.ceil(side / self.crop) for side in self.size)
        return min_size(true_size, (height, width), 1.0, (width / height, width / height))

    def leaves_unchanged(self, size: tuple[int, int]) -> bool:
        return size == self.size and (self.crop == 1 or self.squeeze) and not self.flip

    @property
    def is_exact(self) -> bool:
        return (
            True  # half a pixel of a small image would be a visible shift, and scores would differ from those of arrays
        )

    @property
    def rule(self) -> str:
        return self.describe()

    def describe(self, view: int = 0) -> str:
        """Text that differs whenever what an encoder sees differs: it is part of the key of cached features."""
        size = f"{self.size[0]}×{self.size[1]}"
        flips = f", flips, view {view}" if view else ""
        if self.squeeze:
            return f"squeezed to {size}{flips}"
        if view:
            return f"random crops to {size}{flips}"
        return f"largest centre crop, {size}" if self.crop == 1 else f"{self.crop:g} of the centre crop, {size}"


def requests(index: Tensor, num_images: int, *, view: int = 0, batch_size: int) -> Iterator[CropRequest]:
    """Requests of index [S] in a source of `num_images`; a random view is a function of (view, index) alone."""
    for rows in index.split(batch_size):
        yield CropRequest(rows, (_draws(view, num_images).take(rows) if view else NO_DRAWS,))


@lru_cache(maxsize=1)
def _draws(view: int, num_images: int) -> CropDraws:
    return draw_crops(num_images, seeding.generator(0, "evaluation views", view))
