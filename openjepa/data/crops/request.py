"""What a crop is, how a batch of crops is requested, and what comes back."""

import math
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from openjepa.data.crops import batched
from openjepa.data.crops.batched import CropDraws


class Crop(Protocol):
    """A rule that cuts one box out of every image and resizes it; `RandomCrop` for training, `EvaluationCrop` for the rest."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the result."""
        ...

    @property
    def rule(self) -> str:
        """Everything that `needed` depends on, as text: it names the cache of decoded images."""
        ...

    def boxes(self, draws: CropDraws, sizes: Tensor) -> Tensor:
        """Image sizes [B, 2] -> [B, 4] top, left, height, width in pixels of these images."""
        ...

    def flips(self, draws: CropDraws) -> Tensor | None:
        """-> [B] bool, which crops are mirrored; None: none of them."""
        ...

    def needed(self, true_size: tuple[int, int]) -> tuple[int, int]:
        """(h, w) of an image -> the smallest (h, w) at which no crop is enlarged more than from the image itself."""
        ...

    def keeps(self, size: tuple[int, int]) -> bool:
        """Whether images of this size always come out unchanged: resampling them would only cost time."""
        ...


Crops = tuple[Crop, ...]  # of each image: one, or one for each view of a method


@dataclass(frozen=True)
class RandomCrop:
    size: tuple[int, int]
    scale: tuple[float, float]  # share of the image's area
    aspect: tuple[float, float]  # width / height
    flip: bool = False

    @property
    def rule(self) -> str:
        return f"{self.size} {self.scale[0]} {self.aspect}"

    def boxes(self, draws: CropDraws, sizes: Tensor) -> Tensor:
        return batched.crop_boxes(draws, sizes, scale=self.scale, aspect=self.aspect)

    def flips(self, draws: CropDraws) -> Tensor | None:
        return draws.flip < 0.5 if self.flip else None

    def needed(self, true_size: tuple[int, int]) -> tuple[int, int]:
        return needed(true_size, self.size, self.scale[0], self.aspect)

    def keeps(self, size: tuple[int, int]) -> bool:
        return False


@dataclass(frozen=True)
class CropRequest:
    """A batch before its images are loaded."""

    index: Tensor  # [B] in the source
    draws: tuple[CropDraws, ...]  # one for each crop


@dataclass(frozen=True)
class Cropped:
    views: tuple[Tensor, ...]  # [B, 3, h, w] each in 0 … 255, one for each crop
    index: Tensor  # [B]
    is_valid: Tensor  # [B] bool; False: the image is broken, and the next valid one replaces it
    broken: dict[str, str] = field(default_factory=dict)  # path -> reason, of images that were replaced
    failure: str = ""  # a message when no image could be decoded; the parent raises it, not a worker


def largest_need(crops: Crops, true_size: tuple[int, int]) -> tuple[int, int]:
    """(h, w) of an image -> (h, w) that is enough for all of its crops."""
    needs = [crop.needed(true_size) for crop in crops]
    return max(rows for rows, _ in needs), max(columns for _, columns in needs)


def needed(true: tuple[int, int], size: tuple[int, int], scale: float, aspect: tuple[float, float]) -> tuple[int, int]:
    """(h, w) of an image -> (h, w) at which its smallest crop has as many pixels as it is resized to, if it had them."""
    height, width = true
    area = scale * height * width
    crop_height = min(math.sqrt(area / aspect[1]), height, width / aspect[1])
    crop_width = min(math.sqrt(area * aspect[0]), width, height * aspect[0])
    rows, columns = size[0] * height / crop_height, size[1] * width / crop_width
    return min(height, math.ceil(rows)), min(width, math.ceil(columns))
