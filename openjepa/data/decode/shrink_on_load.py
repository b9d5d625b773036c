"""One image file for crops: decoded just large enough for the smallest crop, and as cheaply as that allows."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, ImageFile
from torch import Tensor

from openjepa.data.decode import image, pillow

MAX_SPARE = 4  # times as many pixels as needed, at most; a JPEG at 1/8, 1/4 or 1/2 mostly has fewer by itself
BLOCK = 2**24  # bytes given to the decoder at a time; with Pillow's 64 kB it stops and restarts at every border
Need = Callable[[tuple[int, int]], tuple[int, int]]  # an image's own (h, w) -> the (h, w) it must have at least


class Decoded(NamedTuple):
    pixels: Tensor  # [h, w, 3 or 4] uint8, upright; ignore a fourth channel
    extent: tuple[float, float]  # rows and columns that the image fills: a scaled JPEG fills its last ones only in part
    size: tuple[int, int]  # the image's own (h, w)


class Scratch:
    """Memory that is used again for one image after the other.

    Pillow decodes into fresh memory and copies that into more of it for numpy. Touching fresh memory is slow (a page fault
    each 4 kB): at 640×480 it takes as long as the decoding.
    """

    def __init__(self) -> None:
        self._bytes = np.empty(0, dtype=np.uint8)

    def load(self, opened: ImageFile.ImageFile) -> Tensor | None:
        """Decodes an RGB image -> [h, w, 4] uint8, valid until the next call; None if Pillow used memory of its own."""
        num_bytes = opened.height * opened.width * 4  # Pillow stores RGB in four bytes, the last one unused
        if len(self._bytes) < num_bytes:
            self._bytes = np.empty(num_bytes, dtype=np.uint8)
        pixels = self._bytes[:num_bytes]
        target = Image.frombuffer("RGBX", opened.size, pixels, "raw", "RGBX", 0, 1)  # documented to share the memory
        opened.im = target.im
        opened.decodermaxblock = BLOCK
        opened.load()
        if opened.im is not target.im:  # Pillow before 11 requires memory of the very same mode and allocates its own
            return None
        return torch.from_numpy(pixels).unflatten(0, (opened.height, opened.width, 4))


def decode(file: pillow.File, needed: Need, scratch: Scratch) -> Decoded:
    """The pixels may be in `scratch`: copy what must outlive the next image."""
    with pillow.opened(file, at_once=True) as opened:
        return _decode(opened, needed, scratch)


def _decode(opened: ImageFile.ImageFile, needed: Need, scratch: Scratch) -> Decoded:
    orientation, true_size = image.upright(opened)
    is_on_its_side = orientation >= 5
    height, width = needed(true_size)[::-1] if is_on_its_side else needed(true_size)
    drafted = opened.draft("RGB", (width, height))  # JPEG at 1/8, 1/4 or 1/2, if that is still at least as large
    columns, rows = drafted[1][2:] if drafted else opened.size
    is_spare = opened.height * opened.width > MAX_SPARE * height * width
    if drafted and opened.mode == "RGB" and orientation == 1 and not is_spare:
        pixels = scratch.load(opened)
        if pixels is not None:
            return Decoded(pixels, (rows, columns), true_size)
    rgb = image.as_rgb(opened)
    if is_spare:
        # Pillow's bilinear filter grows with the scale: shrinking is antialiased.
        rgb = rgb.resize((width, height), Image.Resampling.BILINEAR, box=(0, 0, columns, rows))
        rows, columns = height, width
    pixels = torch.from_numpy(np.array(image.turned(rgb, orientation)))  # [h, w, 3]
    return Decoded(pixels, (columns, rows) if is_on_its_side else (rows, columns), true_size)
