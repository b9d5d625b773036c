"""Crops of decoded images one by one, on the CPU: what worker processes do with files.

Training crops are whole pixels of the decoded image, resized with antialiasing by torch's 8-bit kernel, as torchvision does
it. Evaluation crops are exact: Pillow cuts them at fractions of pixels.
A crop is cut while the image is still in the processor's cache; only the crop leaves the worker.
"""

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from openjepa.data.crops.crop import Crop, CropDraws
from openjepa.data.decode.shrink_on_load import Decoded


class CropBuffer:
    """One crop of each image of a batch, filled image by image."""

    def __init__(self, crop: Crop, draws: CropDraws, num_images: int) -> None:
        self.crop, self.draws = crop, draws
        self.images = torch.empty(num_images, 3, *crop.size, dtype=torch.uint8)
        flips = crop.flips(draws)
        self.is_flipped = [False] * num_images if flips is None else flips.tolist()
        # For the whole batch at once for each image size that occurs in it: mostly one, and then cheap.
        self._boxes: dict[tuple[int, int], list[list[float]]] = {}

    def take(self, row: int, image: Decoded) -> None:
        cut = cut_exactly if self.crop.is_exact else cut_whole_pixels
        part = cut(image, self._box(image.size, row), self.crop.size)
        self.images[row] = part.flip(2) if self.is_flipped[row] else part

    def _box(self, size: tuple[int, int], row: int) -> list[float]:
        """Top, left, height and width, in pixels of the image at its own size."""
        if size not in self._boxes:
            sizes = torch.tensor(size).expand(len(self.images), 2)
            self._boxes[size] = self.crop.boxes(self.draws, sizes).tolist()
        return self._boxes[size][row]


def cut_whole_pixels(image: Decoded, box: list[float], size: tuple[int, int]) -> Tensor:
    """-> [3, h, w] uint8"""
    rows, columns = (
        _whole(box[side], box[side + 2], image.extent[side] / image.size[side], image.pixels.shape[side])
        for side in (0, 1)
    )
    part = image.pixels[rows, columns].permute(2, 0, 1)[None]  # [1, 3 or 4, rows, columns]
    return functional.interpolate(part, size=size, mode="bilinear", antialias=True)[0, :3]


def _whole(start: float, length: float, scale: float, num_pixels: int) -> slice:
    """The nearest whole pixels, at least one."""
    first = min(round(start * scale), num_pixels - 1)
    return slice(first, max(round((start + length) * scale), first + 1))


def cut_exactly(image: Decoded, box: list[float], size: tuple[int, int]) -> Tensor:
    """-> [3, h, w] uint8"""
    height, width, channels = image.pixels.shape
    (top, bottom), (left, right) = (
        _scaled(box[side], box[side + 2], image.extent[side] / image.size[side], image.pixels.shape[side])
        for side in (0, 1)
    )
    mode = "RGB" if channels == 3 else "RGBX"
    whole = Image.frombuffer(mode, (width, height), image.pixels.contiguous().numpy(), "raw", mode, 0, 1)
    part = whole.resize((size[1], size[0]), Image.Resampling.BILINEAR, box=(left, top, right, bottom))
    return torch.from_numpy(np.array(part)[:, :, :3]).permute(2, 0, 1)  # [3, h, w]


def _scaled(start: float, length: float, scale: float, num_pixels: int) -> tuple[float, float]:
    """Start and end, in the image even after rounding: Pillow refuses a box that leaves it."""
    return max(start * scale, 0.0), min((start + length) * scale, float(num_pixels))
