"""Crops for a whole batch at once, on the device the batch is on, with antialiasing as in Pillow.

A crop-and-resize is linear in the pixels, so it is two small matrix products per image: rows, then columns.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

# ImageNet's channel statistics, what I-JEPA's published training used.
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
PIECE = 2**18  # values normalised at a time on a CPU; with a whole batch of 64 at 224 px it takes 1.7 times as long
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


def crop_resize(images: Tensor, boxes: Tensor, size: tuple[int, int], flip: Tensor | None = None) -> Tensor:
    """[B, 3, H, W] uint8, [B, 4] in pixels of these images -> [B, 3, h, w] float in 0 … 255."""
    boxes = boxes.to(images.device)
    rows = _resampling(boxes[:, 0], boxes[:, 2], images.shape[2], size[0])  # [B, h, H]
    columns = _resampling(boxes[:, 1], boxes[:, 3], images.shape[3], size[1])  # [B, w, W]
    if flip is not None:
        columns = torch.where(flip.to(images.device)[:, None, None], columns.flip(1), columns)
    return rows[:, None] @ images.float() @ columns[:, None].transpose(-2, -1)


def normalise(images: Tensor) -> Tensor:
    """[B, 3, h, w] in 0 … 255, uint8 or float -> float channels of about zero mean and unit variance."""
    mean, std = (torch.tensor(values, device=images.device)[:, None, None] * 255 for values in (MEAN, STD))
    if images.dtype != torch.uint8 or images.device.type != "cpu":
        return torch.sub(images, mean).div_(std)  # one new tensor, not two
    normal = torch.empty(images.shape)
    num_images = max(PIECE // max(images[:1].numel(), 1), 1)
    for whole, part in zip(images.split(num_images), normal.split(num_images), strict=True):
        torch.sub(whole, mean, out=part).div_(std)
    return normal


def _resampling(start: Tensor, length: Tensor, num_inputs: int, num_outputs: int) -> Tensor:
    """[B], [B] -> [B, outputs, inputs]: a triangle filter as wide as the shrinking needs; rows sum to 1."""
    scale = (length / num_outputs)[:, None, None]  # input pixels per output pixel
    outputs = torch.arange(num_outputs, device=start.device)[None, :, None]
    inputs = torch.arange(num_inputs, device=start.device)[None, None, :]
    centre = start[:, None, None] + (outputs + 0.5) * scale
    weights = (1 - (inputs + 0.5 - centre).abs() / scale.clamp(min=1)).clamp(min=0)
    return weights / weights.sum(dim=2, keepdim=True)
