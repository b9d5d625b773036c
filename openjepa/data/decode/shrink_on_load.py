"""One picture file for training: decoded just large enough for the smallest crop, and as cheaply as that allows."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, ImageFile
from torch import Tensor

from openjepa.data.decode import image, pillow
from openjepa.data.decode.scratch import Scratch

MAX_SPARE = 4  # times as many pixels as needed, at most; a JPEG at 1/8, 1/4 or 1/2 mostly has fewer by itself
Need = Callable[[tuple[int, int]], tuple[int, int]]  # a picture's own (h, w) -> the (h, w) it should have at least


class Reduced(NamedTuple):
    pixels: Tensor  # [h, w, 3 or 4] uint8, upright; a fourth channel means nothing
    extent: tuple[float, float]  # rows and columns that the picture fills: the last of a scaled JPEG may stand for less
    size: tuple[int, int]  # the picture's own (h, w)


def reduced(picture: pillow.Picture, needed: Need, scratch: Scratch) -> Reduced:
    """The pixels may lie in `scratch`: copy what is to outlive the next picture."""
    with pillow.opened(picture, at_once=True) as opened:
        return _reduce(opened, needed, scratch)


def _reduce(opened: ImageFile.ImageFile, needed: Need, scratch: Scratch) -> Reduced:
    orientation, true_size = image.upright(opened)
    is_on_its_side = orientation >= 5
    height, width = needed(true_size)[::-1] if is_on_its_side else needed(true_size)
    drafted = opened.draft("RGB", (width, height))  # JPEG at 1/8, 1/4 or 1/2, if that is still at least as large
    columns, rows = drafted[1][2:] if drafted else opened.size
    is_spare = opened.height * opened.width > MAX_SPARE * height * width
    if drafted and opened.mode == "RGB" and orientation == 1 and not is_spare:
        pixels = scratch.load(opened)
        if pixels is not None:
            return Reduced(pixels, (rows, columns), true_size)
    rgb = image.as_rgb(opened)
    if is_spare:
        rgb = rgb.resize((width, height), Image.Resampling.BILINEAR, box=(0, 0, columns, rows))
        rows, columns = height, width
    pixels = torch.from_numpy(np.array(image.turned(rgb, orientation)))  # [h, w, 3]
    return Reduced(pixels, (columns, rows) if is_on_its_side else (rows, columns), true_size)
