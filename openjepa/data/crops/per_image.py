"""From pictures one by one to a batch of crops, on the CPU: what decoding processes do for training.

Crops are whole pixels of the decoded picture and resized with antialiasing by torch's 8-bit kernel, as torchvision does it.
A crop is taken while the picture is still in the processor's cache; what travels on is only what training will see.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional

from openjepa.core.contracts import Source
from openjepa.data.batches.decoder import failure, first_sound
from openjepa.data.crops import batched
from openjepa.data.crops.request import Crop, Cropped, Crops, Wanted
from openjepa.data.decode.scratch import Scratch
from openjepa.data.decode.shrink_on_load import Need, Reduced


@runtime_checkable
class Reducible(Source, Protocol):
    """A source of picture files that can decode just large enough."""

    def path(self, index: int) -> Path: ...

    def reduced(self, index: int, needed: Need, scratch: Scratch) -> Reduced: ...


class Shelf(Protocol):
    """Where pictures come from, by place: decoded on demand, or decoded before and kept."""

    def find(self, index: int) -> tuple[Reduced | None, dict[str, str]]:
        """The picture or the next sound one, None if there is none; and path -> reason of those skipped."""
        ...


@dataclass(frozen=True)
class OnDemand:
    source: Reducible
    needed: Need
    scratch: Scratch

    def find(self, index: int) -> tuple[Reduced | None, dict[str, str]]:
        return first_sound(index, len(self.source), self._decode)

    def _decode(self, index: int) -> Reduced:
        return self.source.reduced(index, self.needed, self.scratch)


@dataclass(frozen=True)
class Cropper:
    shelf: Shelf
    crops: Crops

    def __getitem__(self, wanted: Wanted) -> Cropped:
        """-> views [B, 3, h, w] uint8"""
        views = [_View(crop, draws, len(wanted.index)) for crop, draws in zip(self.crops, wanted.draws, strict=True)]
        broken: dict[str, str] = {}
        for row, index in enumerate(wanted.index.tolist()):
            picture, skipped = self.shelf.find(index)
            broken |= skipped
            if picture is None:
                return Cropped((), wanted.index, broken, failure(skipped))
            for view in views:
                view.take(row, picture)
        return Cropped(tuple(view.images for view in views), wanted.index, broken)


class _View:
    """One crop of each picture of a batch."""

    def __init__(self, crop: Crop, draws: batched.CropDraws, num_images: int) -> None:
        self.crop = crop
        self.images = torch.empty(num_images, 3, *crop.size, dtype=torch.uint8)
        self.boxes = _Boxes(draws, crop)
        self.is_flipped = (draws.flip < 0.5).tolist()

    def take(self, row: int, picture: Reduced) -> None:
        part = cut(picture, self.boxes.of(picture.size, row), self.crop.size)
        self.images[row] = part.flip(2) if self.crop.flip and self.is_flipped[row] else part


class _Boxes:
    """Drawn for the whole batch at once for each size of picture that occurs in it: mostly one, and then cheap."""

    def __init__(self, draws: batched.CropDraws, crop: Crop) -> None:
        self.draws, self.crop = draws, crop
        self.by_size: dict[tuple[int, int], list[list[float]]] = {}

    def of(self, size: tuple[int, int], row: int) -> list[float]:
        """Top, left, height and width, in pixels of the true picture."""
        if size not in self.by_size:
            sizes = torch.tensor(size).expand(len(self.draws.flip), 2)
            boxes = batched.crop_boxes(self.draws, sizes, scale=self.crop.scale, aspect=self.crop.aspect)
            self.by_size[size] = boxes.tolist()
        return self.by_size[size][row]


def cut(picture: Reduced, box: list[float], size: tuple[int, int]) -> Tensor:
    """-> [3, h, w] uint8"""
    rows, columns = (
        _whole(box[side], box[side + 2], picture.extent[side] / picture.size[side], picture.pixels.shape[side])
        for side in (0, 1)
    )
    part = picture.pixels[rows, columns].permute(2, 0, 1)[None]  # [1, 3 or 4, rows, columns]
    return functional.interpolate(part, size=size, mode="bilinear", antialias=True)[0, :3]


def _whole(start: float, length: float, scale: float, num_pixels: int) -> slice:
    """The nearest whole pixels, at least one."""
    first = min(round(start * scale), num_pixels - 1)
    return slice(first, max(round((start + length) * scale), first + 1))
