"""What a random crop is, and what asking for a batch of them and getting it looks like."""

import math
from dataclasses import dataclass, field

from torch import Tensor

from openjepa.data.crops import batched
from openjepa.data.crops.batched import CropDraws


@dataclass(frozen=True)
class Crop:
    size: tuple[int, int]  # height and width of what comes out
    scale: tuple[float, float]  # share of the picture's area
    aspect: tuple[float, float]  # width / height
    flip: bool = False

    def needed(self, true: tuple[int, int]) -> tuple[int, int]:
        return needed(true, self.size, self.scale[0], self.aspect)


def random_crop(images: Tensor, sizes: Tensor, draws: CropDraws, crop: Crop) -> Tensor:
    """[B, 3, H, W] uint8 -> [B, 3, h, w] in 0 … 255. `sizes` [B, 2]: true ones, before pictures were stretched to H×W."""
    boxes = batched.crop_boxes(draws, sizes, scale=crop.scale, aspect=crop.aspect)
    return batched.cut(images, sizes, boxes, crop.size, draws.flip < 0.5 if crop.flip else None)


Crops = tuple[Crop, ...]  # of each picture: one, or one for each view that a method wants


def largest_need(crops: Crops, true: tuple[int, int]) -> tuple[int, int]:
    """(h, w) of a picture -> (h, w) that is enough for all of its crops."""
    needs = [crop.needed(true) for crop in crops]
    return max(rows for rows, _ in needs), max(columns for _, columns in needs)


@dataclass(frozen=True)
class Wanted:
    """A batch before its pictures are there."""

    index: Tensor  # [B] places in the source
    draws: tuple[CropDraws, ...]  # one for each crop


@dataclass(frozen=True)
class Cropped:
    views: tuple[Tensor, ...]  # [B, 3, h, w] each in 0 … 255, one for each crop
    index: Tensor  # [B]
    broken: dict[str, str] = field(default_factory=dict)  # path -> reason, of pictures that were replaced
    failure: str = ""  # a sentence, when no picture could be decoded; said by the parent, not by a worker


def needed(true: tuple[int, int], size: tuple[int, int], scale: float, aspect: tuple[float, float]) -> tuple[int, int]:
    """(h, w) of a picture -> (h, w) at which its smallest crop has as many pixels as it will be resized to, if it had them."""
    height, width = true
    area = scale * height * width
    crop_height = min(math.sqrt(area / aspect[1]), height, width / aspect[1])
    crop_width = min(math.sqrt(area * aspect[0]), width, height * aspect[0])
    rows, columns = size[0] * height / crop_height, size[1] * width / crop_width
    return min(height, math.ceil(rows)), min(width, math.ceil(columns))
