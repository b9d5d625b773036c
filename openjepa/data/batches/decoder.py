"""One picture by index, decoded to the size that a batch needs.

Pictures of different sizes are stretched to a common canvas, large enough that no crop has to be enlarged more than it would
have been from the original; their true sizes travel along so that crops keep true proportions. A picture that cannot be
decoded is replaced by the next one that can, always the same one, and remembered with its reason.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor
from torch.utils.data import Dataset

from openjepa.core.contracts import Source
from openjepa.core.errors import BrokenImage
from openjepa.data.crops import request

T = TypeVar("T")

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
        found, broken = first_sound(index, len(self.source), self._decode)
        if found is None:
            return Decoded(torch.empty(0), (0, 0), index, broken, failure(broken))
        return Decoded(*found, index, broken)

    def _decode(self, index: int) -> tuple[Tensor, tuple[int, int]]:
        if self.canvas is not None and isinstance(self.source, Scalable):
            return self.source.scaled(index, self.canvas)
        image = self.source[index].image
        return image, (image.shape[1], image.shape[2])


def first_sound(index: int, num_pictures: int, decode: Callable[[int], T]) -> tuple[T | None, dict[str, str]]:
    """What `decode` makes of the picture at this place or of the next one that is sound; and path -> reason of those skipped."""
    broken: dict[str, str] = {}
    for neighbour in range(min(num_pictures, MAX_NEIGHBOURS)):
        try:
            return decode((index + neighbour) % num_pictures), broken
        except BrokenImage as error:
            broken[error.path] = error.reason
    return None, broken


def failure(broken: Mapping[str, str]) -> str:
    path, reason = next(iter(broken.items()))
    return (
        f"{len(broken)} pictures in a row cannot be decoded, the first is {path} ({reason}); "
        "look at them with openjepa data check"
    )


def canvas_for(
    source: Source, image_size: tuple[int, int], crop_scale: float, crop_aspect: tuple[float, float]
) -> tuple[int, int] | None:
    """The common size to decode to, or None when the source's pictures are all of one size anyway."""
    if not isinstance(source, Scalable):
        return None
    needed = []
    for index in range(0, len(source), max(len(source) // NUM_SIZE_SAMPLES, 1)):
        try:
            needed.append(request.needed(source.true_size(index), image_size, crop_scale, crop_aspect))
        except BrokenImage:
            continue
    heights, widths = zip(*needed, strict=True) if needed else ((image_size[0],), (image_size[1],))
    return max(heights), max(widths)
