"""What a crop is: its random numbers, its box, and how a batch of crops is requested and returned."""

import math
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

NUM_TRIES = 10  # draws of an aspect ratio that may not fit; then the largest centred crop


@dataclass(frozen=True)
class CropDraws:
    """Random numbers for crops, drawn before the image sizes are known."""

    area: Tensor  # [B, tries] in [0, 1)
    aspect: Tensor  # [B, tries]
    position: Tensor  # [B, 2]
    flip: Tensor  # [B]

    def take(self, rows: slice | Tensor) -> "CropDraws":
        return CropDraws(self.area[rows], self.aspect[rows], self.position[rows], self.flip[rows])


NO_DRAWS = CropDraws(*(torch.empty(0) for _ in range(4)))  # of a fixed crop


def draw_crops(batch_size: int, generator: torch.Generator) -> CropDraws:
    draws = torch.rand(batch_size, 2 * NUM_TRIES + 3, generator=generator)
    area, aspect, position, flip = draws.split([NUM_TRIES, NUM_TRIES, 2, 1], dim=1)
    return CropDraws(area, aspect, position, flip.squeeze(1))


class Crop(Protocol):
    """A rule that cuts one box out of every image and resizes it; `RandomCrop` for training, `EvaluationCrop` for the rest."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the result."""
        ...

    @property
    def rule(self) -> str:
        """Everything that `min_size` depends on, as text: it names the cache of decoded images."""
        ...

    def boxes(self, draws: CropDraws, sizes: Tensor) -> Tensor:
        """Image sizes [B, 2] -> [B, 4] top, left, height, width in pixels of these images."""
        ...

    def flips(self, draws: CropDraws) -> Tensor | None:
        """-> [B] bool, which crops are mirrored; None: none of them."""
        ...

    def min_size(self, true_size: tuple[int, int]) -> tuple[int, int]:
        """(h, w) of an image -> the smallest (h, w) at which no crop is enlarged more than from the image itself."""
        ...

    def leaves_unchanged(self, size: tuple[int, int]) -> bool:
        """Whether images of this size always come out unchanged: resampling them would only cost time."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether files are cut at fractions of pixels too, as arrays always are; False: at the nearest whole pixels."""
        ...


Crops = tuple[Crop, ...]  # of each image: one, or one for each view of a method


@dataclass(frozen=True, kw_only=True)
class RandomCrop:
    size: tuple[int, int]
    scale: tuple[float, float]  # share of the image's area
    aspect: tuple[float, float]  # width / height
    flip: bool = False

    @property
    def rule(self) -> str:
        return f"{self.size} {self.scale[0]} {self.aspect}"

    def boxes(self, draws: CropDraws, sizes: Tensor) -> Tensor:
        return crop_boxes(draws, sizes, scale=self.scale, aspect=self.aspect)

    def flips(self, draws: CropDraws) -> Tensor | None:
        return draws.flip < 0.5 if self.flip else None

    def min_size(self, true_size: tuple[int, int]) -> tuple[int, int]:
        return min_size(true_size, self.size, self.scale[0], self.aspect)

    def leaves_unchanged(self, size: tuple[int, int]) -> bool:
        return False

    @property
    def is_exact(self) -> bool:
        return False


def crop_boxes(draws: CropDraws, sizes: Tensor, *, scale: tuple[float, float], aspect: tuple[float, float]) -> Tensor:
    """[B, 2] -> [B, 4] (top, left, height, width) in pixels: random area, log-uniform aspect, as RandomResizedCrop."""
    height, width = sizes.float().unbind(dim=1)
    area = (scale[0] + (scale[1] - scale[0]) * draws.area) * (height * width)[:, None]  # [B, tries]
    log_low, log_high = math.log(aspect[0]), math.log(aspect[1])
    ratio = (log_low + (log_high - log_low) * draws.aspect).exp()  # width / height
    wide, high = (area * ratio).sqrt(), (area / ratio).sqrt()
    fits = (wide <= width[:, None]) & (high <= height[:, None])
    first = fits.float().argmax(dim=1, keepdim=True)
    box_height, box_width = high.gather(1, first).squeeze(1), wide.gather(1, first).squeeze(1)
    free = torch.stack([height - box_height, width - box_width], dim=1)  # [B, 2]
    boxes = torch.cat([draws.position * free, box_height[:, None], box_width[:, None]], dim=1)
    return torch.where(fits.any(dim=1, keepdim=True), boxes, centre_boxes(sizes, aspect=aspect))


def centre_boxes(sizes: Tensor, *, aspect: tuple[float, float]) -> Tensor:
    """[B, 2] -> [B, 4]: the largest centred box whose width/height is in the range."""
    height, width = sizes.float().unbind(dim=1)
    box_width = torch.minimum(width, height * aspect[1])
    box_height = torch.minimum(height, width / aspect[0])
    return torch.stack([(height - box_height) / 2, (width - box_width) / 2, box_height, box_width], dim=1)


@dataclass(frozen=True)
class CropRequest:
    """A batch before its images are loaded."""

    index: Tensor  # [B] in the source
    draws: tuple[CropDraws, ...]  # one for each crop


@dataclass(frozen=True, kw_only=True)
class Cropped:
    views: tuple[Tensor, ...]  # [B, 3, h, w] each in 0 … 255, one for each crop
    index: Tensor  # [B]
    is_valid: Tensor  # [B] bool; False: the image is broken, and the next valid one replaces it
    broken: dict[str, str] = field(default_factory=dict)  # path -> reason, of images that were replaced
    failure: str = ""  # a message when no image could be decoded; the parent raises it, not a worker


def size_to_decode(crops: Crops, true_size: tuple[int, int]) -> tuple[int, int]:
    """(h, w) of an image -> (h, w) that is enough for all of its crops."""
    needs = [crop.min_size(true_size) for crop in crops]
    return max(rows for rows, _ in needs), max(columns for _, columns in needs)


def min_size(
    true: tuple[int, int], size: tuple[int, int], scale: float, aspect: tuple[float, float]
) -> tuple[int, int]:
    """(h, w) of an image -> (h, w) at which its smallest crop has as many pixels as it is resized to, if it had them."""
    height, width = true
    area = scale * height * width
    crop_height = min(math.sqrt(area / aspect[1]), height, width / aspect[1])
    crop_width = min(math.sqrt(area * aspect[0]), width, height * aspect[0])
    rows, columns = size[0] * height / crop_height, size[1] * width / crop_width
    return min(height, math.ceil(rows)), min(width, math.ceil(columns))
