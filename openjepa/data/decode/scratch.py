"""Memory that pictures are decoded into, one after the other.

Pillow decodes into fresh memory and copies that into more of it for numpy. Touching fresh memory is slow (a page fault each
4 kB): at 640×480 it takes as long as the decoding.
"""

import numpy as np
import torch
from PIL import Image, ImageFile
from torch import Tensor

BLOCK = 2**24  # bytes given to the decoder at a time; with Pillow's 64 kB it stops and starts anew at every border


class Scratch:
    def __init__(self) -> None:
        self._bytes = np.empty(0, dtype=np.uint8)

    def load(self, image: ImageFile.ImageFile) -> Tensor | None:
        """Decodes an RGB picture -> [h, w, 4] uint8, good until the next call; None if Pillow went its own way."""
        num_bytes = image.height * image.width * 4  # Pillow keeps RGB in four bytes, the last one unused
        if len(self._bytes) < num_bytes:
            self._bytes = np.empty(num_bytes, dtype=np.uint8)
        pixels = self._bytes[:num_bytes]
        target = Image.frombuffer("RGBX", image.size, pixels, "raw", "RGBX", 0, 1)  # documented to share the memory
        image.im = target.im
        image.decodermaxblock = BLOCK
        image.load()
        if image.im is not target.im:  # Pillow before 11 wants memory of the very same mode and makes its own
            return None
        return torch.from_numpy(pixels).unflatten(0, (image.height, image.width, 4))
