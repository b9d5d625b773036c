"""What a random crop is, and what asking for a batch of them and getting it looks like."""

import math
from dataclasses import dataclass, field

from torch import Tensor

from openjepa.data.transforms import CropDraws


@dataclass(frozen=True)
class Crop:
    size: tuple[int, int]  # height and width of what comes out
    scale: tuple[float, float]  # share of the picture's area
    aspect: tuple[float, float]  # width / height
    flip: bool = False

    def needed(self, true: tuple[int, int]) -> tuple[int, int]:
        return needed(true, self.size, self.scale[0], self.aspect)


@dataclass(frozen=True)
class Wanted:
    """A batch before its pictures are there."""

    index: Tensor  # [B] places in the source
    draws: CropDraws


@dataclass(frozen=True)
class Cropped:
    images: Tensor  # [B, 3, h, w]
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
