"""RandAugment (Cubuk et al., 2020) with strengths that grow with the magnitude, MAE's `rand-m9-mstd0.5-inc1`.

Two operations per image, each applied half of the time. The ranges are those of timm, which MAE calls; MAE resamples with
bicubic, we with bilinear, as all our crops do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from openjepa.core.errors import BadInput
from openjepa.data.crops import batched

MAX_MAGNITUDE = 10.0
FILL = tuple(round(255 * mean) for mean in batched.MEAN)  # of uncovered pixels: about zero, normalised
Operation = Callable[[Image.Image, float, int], Image.Image]  # image, level in 0 … 1, sign -1 or 1


@dataclass(frozen=True)
class Draws:
    """Every random number of a batch, [B, operations] each, drawn before the first image is touched."""

    operation: Tensor  # int64, an index in OPERATIONS; the same one may come twice
    level: Tensor  # in 0 … 1
    sign: Tensor  # -1 or 1
    is_applied: Tensor  # bool

    def of(self, row: int) -> list[tuple[int, float, int]]:
        """The applied operations of one image, in order: index in OPERATIONS, level, sign."""
        columns = self.is_applied[row].nonzero().squeeze(1)
        values = (self.operation[row, columns], self.level[row, columns], self.sign[row, columns])
        return list(zip(*(column.tolist() for column in values), strict=True))


@dataclass(frozen=True)
class RandAugment:
    num_operations: int = 2
    magnitude: float = 9.0  # of 10
    noise: float = 0.5  # standard deviation of the magnitude
    probability: float = 0.5  # of each operation

    def __post_init__(self) -> None:
        if not 0 <= self.magnitude <= MAX_MAGNITUDE:
            raise BadInput(f"magnitude is {self.magnitude}; expected 0 (no change) … {MAX_MAGNITUDE:g} (strongest)")
        if not 0 <= self.probability <= 1:
            raise BadInput(f"probability is {self.probability}; expected 0 … 1")

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """[B, 3, h, w] uint8 -> [B, 3, h, w] uint8; Pillow works on the CPU, one image after the other."""
        draws = self.draw(len(images), generator)
        changed = [_changed(image, draws.of(row)) for row, image in enumerate(images.cpu())]
        return torch.stack(changed).to(images.device)

    def draw(self, batch_size: int, generator: torch.Generator) -> Draws:
        shape = (batch_size, self.num_operations)
        operation = torch.randint(len(OPERATIONS), shape, generator=generator)
        magnitude = self.magnitude + self.noise * torch.randn(shape, generator=generator)
        sign = 2 * torch.randint(2, shape, generator=generator) - 1
        is_applied = torch.rand(shape, generator=generator) < self.probability
        return Draws(operation, magnitude.clamp(0, MAX_MAGNITUDE) / MAX_MAGNITUDE, sign, is_applied)


def _changed(pixels: Tensor, operations: list[tuple[int, float, int]]) -> Tensor:
    """[3, h, w] uint8 -> [3, h, w] uint8"""
    if not operations:  # a quarter of all images
        return pixels
    image = Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())
    known = list(OPERATIONS.values())
    for index, level, sign in operations:
        image = known[index](image, level, sign)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)  # [3, h, w]


def auto_contrast(image: Image.Image, level: float, sign: int) -> Image.Image:
    return ImageOps.autocontrast(image)


def equalize(image: Image.Image, level: float, sign: int) -> Image.Image:
    return ImageOps.equalize(image)


def invert(image: Image.Image, level: float, sign: int) -> Image.Image:
    return ImageOps.invert(image)


def rotate(image: Image.Image, level: float, sign: int) -> Image.Image:
    return image.rotate(sign * 30 * level, Image.Resampling.BILINEAR, fillcolor=FILL)


def posterize(image: Image.Image, level: float, sign: int) -> Image.Image:
    """Keeps 4 … 1 bits. timm goes down to 0 at magnitude 10, a black image, from which nothing can be learned."""
    return ImageOps.posterize(image, max(4 - int(4 * level), 1))


def solarize(image: Image.Image, level: float, sign: int) -> Image.Image:
    """Inverts what is at least as bright as the threshold: nothing at level 0 (256), everything at level 1 (0)."""
    return ImageOps.solarize(image, 256 - int(256 * level))


def solarize_add(image: Image.Image, level: float, sign: int) -> Image.Image:
    """Brightens the dark half; as its values end at 127 and at most 110 is added, nothing overflows."""
    added = int(110 * level)
    table = [value + added if value < 128 else value for value in range(256)]
    return image.point(3 * table)


def enhance(kind: Callable[[Image.Image], Any], image: Image.Image, level: float, sign: int) -> Image.Image:
    """Factor 0.1 … 1.9; 1 changes nothing, less is greyer, flatter, darker or softer."""
    return kind(image).enhance(1 + sign * 0.9 * level)


def shear_x(image: Image.Image, level: float, sign: int) -> Image.Image:
    """About the top left corner, as in timm."""
    return _affine(image, (1, sign * 0.3 * level, 0, 0, 1, 0))


def shear_y(image: Image.Image, level: float, sign: int) -> Image.Image:
    return _affine(image, (1, 0, 0, sign * 0.3 * level, 1, 0))


def translate_x(image: Image.Image, level: float, sign: int) -> Image.Image:
    return _affine(image, (1, 0, sign * 0.45 * level * image.width, 0, 1, 0))


def translate_y(image: Image.Image, level: float, sign: int) -> Image.Image:
    return _affine(image, (1, 0, 0, 0, 1, sign * 0.45 * level * image.height))


def _affine(image: Image.Image, matrix: tuple[float, ...]) -> Image.Image:
    """The pixel at (x, y) is read from (ax + by + c, dx + ey + f)."""
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR, fillcolor=FILL)


OPERATIONS: dict[str, Operation] = {
    "AutoContrast": auto_contrast,
    "Equalize": equalize,
    "Invert": invert,
    "Rotate": rotate,
    "Posterize": posterize,
    "Solarize": solarize,
    "SolarizeAdd": solarize_add,
    "Color": partial(enhance, ImageEnhance.Color),
    "Contrast": partial(enhance, ImageEnhance.Contrast),
    "Brightness": partial(enhance, ImageEnhance.Brightness),
    "Sharpness": partial(enhance, ImageEnhance.Sharpness),
    "ShearX": shear_x,
    "ShearY": shear_y,
    "TranslateX": translate_x,
    "TranslateY": translate_y,
}
