"""One picture by index, decoded to the size that a batch needs.

Pictures of different sizes are stretched to a common canvas, large enough that no crop has to be enlarged more than it would
have been from the original; their true sizes travel along so that crops keep true proportions. A picture that cannot be
decoded is replaced by the next one that can, always the same one, and remembered with its reason.
"""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.utils.data import Dataset

from openjepa.core.contracts import Source
from openjepa.core.errors import BrokenImage

NUM_SIZE_SAMPLES = 64  # pictures looked at to choose the canvas
MAX_NEIGHBOURS = 1000  # broken pictures in a row before giving up


@runtime_checkable
class Scalable(Protocol):
    """A source of pictures of any size that can decode straight to a wanted size."""

    def scaled(self, index: int, size: tuple[int, int]) -> tuple[Tensor, tuple[int, int]]:
        """-> image [3, h, w] uint8 stretched to `size`, and the picture's true (height, width)."""
        ...

    def true_size(self, index: int) -> tuple[int, int]: ...


@dataclass(frozen=True)
class Decoded:
    image: Tensor  # [3, H, W] uint8
    size: tuple[int, int]
    index: int
    broken: dict[str, str]
    failure: str = ""


@dataclass(frozen=True)
class Decoder(Dataset):
    """Map-style, for worker processes: index -> one decoded picture, or the next one that can be decoded."""

    source: Source
    canvas: tuple[int, int] | None  # None: the source's own size

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Decoded:
        broken: dict[str, str] = {}
        for neighbour in range(min(len(self.source), MAX_NEIGHBOURS)):
            try:
                image, size = self._decode((index + neighbour) % len(self.source))
                return Decoded(image, size, index, broken)
            except BrokenImage as error:
                broken[error.path] = error.reason
        path, reason = next(iter(broken.items()))
        return Decoded(
            torch.empty(0),
            (0, 0),
            index,
            broken,
            failure=(
                f"{len(broken)} pictures in a row cannot be decoded, the first is {path} ({reason}); "
                "look at them with openjepa data check"
            ),
        )

    def _decode(self, index: int) -> tuple[Tensor, tuple[int, int]]:
        if self.canvas is not None and isinstance(self.source, Scalable):
            return self.source.scaled(index, self.canvas)
        image = self.source[index].image
        return image, (image.shape[1], image.shape[2])


def canvas_for(
    source: Source, image_size: tuple[int, int], crop_scale: float, crop_aspect: tuple[float, float]
) -> tuple[int, int] | None:
    """The common size to decode to, or None when the source's pictures are all of one size anyway."""
    if not isinstance(source, Scalable):
        return None
    needed = []
    for index in range(0, len(source), max(len(source) // NUM_SIZE_SAMPLES, 1)):
        try:
            needed.append(_needed_for(source.true_size(index), image_size, crop_scale, crop_aspect))
        except BrokenImage:
            continue
    heights, widths = zip(*needed, strict=True) if needed else ((image_size[0],), (image_size[1],))
    return max(heights), max(widths)


def _needed_for(
    true: tuple[int, int], image_size: tuple[int, int], crop_scale: float, crop_aspect: tuple[float, float]
) -> tuple[int, int]:
    """The canvas on which the smallest crop of a picture still has as many pixels as it will be resized to, if it had them."""
    height, width = true
    area = crop_scale * height * width
    crop_height = min(math.sqrt(area / crop_aspect[1]), height, width / crop_aspect[1])
    crop_width = min(math.sqrt(area * crop_aspect[0]), width, height * crop_aspect[0])
    rows, columns = image_size[0] * height / crop_height, image_size[1] * width / crop_width
    return min(height, math.ceil(rows)), min(width, math.ceil(columns))
