"""One picture file to a uint8 tensor, as people have them: rotated, grey, palette, transparent, CMYK, 16-bit, animated."""

from typing import NamedTuple

import numpy as np
import torch
from PIL import ExifTags, Image
from torch import Tensor

from openjepa.data.decode.pillow import PILLOW_ERRORS, Picture, opened

UPRIGHT = {  # EXIF orientation -> what makes the picture upright (CIPA DC-008, tag 0x0112)
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class Header(NamedTuple):
    format: str
    mode: str  # Pillow's name: RGB, L, P, CMYK, I;16 …
    size: tuple[int, int]  # (h, w) of the upright picture
    orientation: int  # EXIF, 1 is upright


def decode(picture: Picture, *, size: tuple[int, int] | None = None) -> Tensor:
    """-> [3, h, w] uint8, upright RGB; with `size` stretched to that (h, w), for JPEG through a scaled decode."""
    with opened(picture) as image:
        return _decode(image, size)[0]


def scaled(picture: Picture, size: tuple[int, int]) -> tuple[Tensor, tuple[int, int]]:
    """-> [3, h, w] uint8 stretched to `size`, and the picture's own (h, w), from reading the file once."""
    with opened(picture) as image:
        return _decode(image, size)


def header(picture: Picture) -> Header:
    """What the file says about itself, without decoding a pixel; EXIF behind the pixels of a PNG is not seen here."""
    with opened(picture) as image:
        orientation = _orientation(image)
        is_on_its_side = orientation >= 5 and image.format != "TIFF"  # Pillow gives a TIFF's size upright
        size = (image.width, image.height) if is_on_its_side else (image.height, image.width)
        return Header(image.format or "unknown", image.mode, size, orientation)


def _decode(image: Image.Image, size: tuple[int, int] | None) -> tuple[Tensor, tuple[int, int]]:
    """-> [3, h, w] uint8, and the picture's own (h, w)"""
    orientation, true_size = upright(image)
    is_on_its_side = orientation >= 5
    rgb = as_rgb(image) if size is None else _stretched(image, size[::-1] if is_on_its_side else size)
    return torch.from_numpy(np.array(turned(rgb, orientation))).permute(2, 0, 1).contiguous(), true_size  # [3, h, w]


def turned(rgb: Image.Image, orientation: int) -> Image.Image:
    return rgb.transpose(UPRIGHT[orientation]) if orientation in UPRIGHT else rgb


def upright(image: Image.Image) -> tuple[int, tuple[int, int]]:
    """The EXIF orientation, and the (h, w) of the picture when it is upright."""
    if image.format not in ("JPEG", "MPO"):  # only these gain by knowing the wanted size before they are loaded
        image.load()  # turns a TIFF upright, and finds EXIF behind the pixels of a PNG
    orientation = _orientation(image)
    return orientation, (image.width, image.height) if orientation >= 5 else (image.height, image.width)


def _stretched(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    height, width = size
    drafted = image.draft("RGB", (width, height))  # JPEG at 1/8, 1/4 or 1/2, if that is still at least as large
    box = drafted[1] if drafted else None  # the last row and column may stand for less than a pixel
    # Pillow's bilinear grows with the scale: shrinking is antialiased.
    return as_rgb(image).resize((width, height), Image.Resampling.BILINEAR, box=box)


def _orientation(image: Image.Image) -> int:
    try:
        exif = Image.Image.getexif(image)  # the base class's: PNG's own would decode the picture first
        value = exif.get(ExifTags.Base.Orientation, 1)
    except PILLOW_ERRORS:
        return 1  # damaged EXIF is no reason to lose a good picture
    return int(value) if value in UPRIGHT else 1


def as_rgb(image: Image.Image) -> Image.Image:
    """Transparent pictures go on white: they are mostly drawings and cut-outs made for a white page, and the colour

    stored under a transparent pixel is arbitrary, so dropping alpha would show what was never meant to be seen.
    """
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return Image.fromarray(_eight_bits(np.array(image))).convert("RGB")
    if image.has_transparency_data:
        page = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(page, image.convert("RGBA")).convert("RGB")
    return image.convert("RGB")


def _eight_bits(values: np.ndarray) -> np.ndarray:
    """[h, w] -> [h, w] uint8. Whole numbers up to 65535 by 1/257 and floats in 0..1 by 255, so that pictures stay

    comparable with each other; only what fits neither scale is stretched from its own minimum..maximum.
    """
    usual = 1.0 if values.dtype.kind == "f" else 65535.0
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, usual)
    if low >= 0 and high <= usual:
        low, high = 0.0, usual
    grey = np.nan_to_num(values, nan=low, posinf=high, neginf=low).astype(np.float64)
    return np.rint((grey - low) * (255 / max(high - low, 1e-30))).astype(np.uint8)
