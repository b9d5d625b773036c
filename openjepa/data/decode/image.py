"""One image file, whole, to a uint8 tensor: rotated, grey, palette, transparent, CMYK, 16-bit, animated."""

from typing import NamedTuple

import numpy as np
import torch
from PIL import ExifTags, Image
from torch import Tensor

from openjepa.data.decode.pillow import PILLOW_ERRORS, File, opened

UPRIGHT = {  # EXIF orientation -> what makes the image upright (CIPA DC-008, tag 0x0112)
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
    size: tuple[int, int]  # (h, w) of the upright image
    orientation: int  # EXIF, 1 is upright


def decode(file: File) -> Tensor:
    """-> [3, h, w] uint8, upright RGB."""
    with opened(file) as image:
        orientation, _ = upright(image)
        return torch.from_numpy(np.array(turned(as_rgb(image), orientation))).permute(2, 0, 1).contiguous()  # [3, h, w]


def header(file: File) -> Header:
    """What the file says about itself, without decoding a pixel; misses EXIF behind the pixels of a PNG."""
    with opened(file) as image:
        orientation = _orientation(image)
        is_on_its_side = orientation >= 5 and image.format != "TIFF"  # Pillow gives a TIFF's size upright
        size = (image.width, image.height) if is_on_its_side else (image.height, image.width)
        return Header(image.format or "unknown", image.mode, size, orientation)


def turned(rgb: Image.Image, orientation: int) -> Image.Image:
    return rgb.transpose(UPRIGHT[orientation]) if orientation in UPRIGHT else rgb


def upright(image: Image.Image) -> tuple[int, tuple[int, int]]:
    """The EXIF orientation, and the (h, w) of the upright image."""
    if image.format not in ("JPEG", "MPO"):  # only these load faster when the size is set first
        image.load()  # turns a TIFF upright, and finds EXIF behind the pixels of a PNG
    orientation = _orientation(image)
    return orientation, (image.width, image.height) if orientation >= 5 else (image.height, image.width)


def _orientation(image: Image.Image) -> int:
    try:
        exif = Image.Image.getexif(image)  # the base class's: PNG's own would decode the image first
        value = exif.get(ExifTags.Base.Orientation, 1)
    except PILLOW_ERRORS:
        return 1  # a good image may have damaged EXIF
    return int(value) if value in UPRIGHT else 1


def as_rgb(image: Image.Image) -> Image.Image:
    """-> RGB; transparent images on white, since most are drawings and cut-outs made for a white page.

    The colour stored under a transparent pixel is arbitrary: dropping alpha would show what nobody was meant to see.
    """
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return Image.fromarray(_eight_bits(np.array(image))).convert("RGB")
    if image.has_transparency_data:
        page = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(page, image.convert("RGBA")).convert("RGB")
    return image.convert("RGB")


def _eight_bits(values: np.ndarray) -> np.ndarray:
    """[h, w] -> [h, w] uint8. Whole numbers up to 65535 by 1/257 and floats in 0..1 by 255, the same for all images.

    Only values that fit neither scale are stretched from their own minimum..maximum.
    """
    usual = 1.0 if values.dtype.kind == "f" else 65535.0
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, usual)
    if low >= 0 and high <= usual:
        low, high = 0.0, usual
    grey = np.nan_to_num(values, nan=low, posinf=high, neginf=low).astype(np.float64)
    return np.rint((grey - low) * (255 / max(high - low, 1e-30))).astype(np.uint8)
