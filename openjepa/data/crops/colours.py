"""Changes of colour for a batch of views, on the device it is on: jitter, grey, blur, solarise (SimCLR, BYOL, DINO).

Every random number of a batch is drawn before the first image is touched, for the global batch, on the CPU. As in torchvision,
but the four parts of the jitter come in one order for all images of a step, not in one of its own for each.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from openjepa.core.types import Augmentation

LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, what Pillow's convert("L") uses
BLUR_SIGMA = (0.1, 2.0)  # in pixels, SimCLR and all who followed
BLUR_KERNEL = 0.1  # of the side
SOLARISE_AT = 0.5


@dataclass(frozen=True)
class ColourDraws:
    """Random numbers of the colours of one view, all but `order` for each image."""

    factors: Tensor  # [B, 4] in [-1, 1): brightness, contrast, saturation, hue
    chances: Tensor  # [B, 4] in [0, 1): of jitter, grey, blur, solarise
    sigma: Tensor  # [B] in [0, 1)
    order: list[int]  # of the four parts of the jitter

    def take(self, rows: slice) -> "ColourDraws":
        return ColourDraws(self.factors[rows], self.chances[rows], self.sigma[rows], self.order)


def draw(batch_size: int, generator: torch.Generator) -> ColourDraws:
    factors, chances, sigma = torch.rand(batch_size, 9, generator=generator).split([4, 4, 1], dim=1)
    return ColourDraws(2 * factors - 1, chances, sigma.squeeze(1), torch.randperm(4, generator=generator).tolist())


def colours(images: Tensor, draws: ColourDraws, view: Augmentation) -> Tensor:
    """[B, 3, h, w] in 0 … 1 -> the same shape and range."""
    chances = (
        view.jitter_chance if any(view.jitter) else 0.0,
        view.grey_chance,
        view.blur_chance,
        view.solarise_chance,
    )
    is_due = draws.chances < torch.tensor(chances)  # [B, 4]
    sigma = BLUR_SIGMA[0] + (BLUR_SIGMA[1] - BLUR_SIGMA[0]) * draws.sigma
    steps = (
        lambda chosen, rows: jittered(chosen, draws.factors[rows] * torch.tensor(view.jitter), draws.order),
        lambda chosen, rows: grey(chosen).expand_as(chosen),
        lambda chosen, rows: blurred(chosen, sigma[rows]),
        lambda chosen, rows: solarised(chosen),
    )
    images = images.clone()
    for column, change in enumerate(steps):
        rows = is_due[:, column].nonzero().squeeze(1)
        if len(rows):
            on_device = rows.to(images.device)
            images[on_device] = change(images[on_device], rows)
    return images


def jittered(images: Tensor, factors: Tensor, order: list[int]) -> Tensor:
    """[B, 3, h, w] in 0 … 1, factors [B, 4] around 0: brightness, contrast and saturation by 1 + factor, hue by a turn of it."""
    each = factors.to(images.device)[..., None, None, None]  # [B, 4, 1, 1, 1]
    brightness, contrast, saturation, hue = each.unbind(dim=1)
    parts = (
        lambda x: (x * (1 + brightness)).clamp(0, 1),
        lambda x: blended(x, grey(x).mean(dim=(1, 2, 3), keepdim=True), 1 + contrast),
        lambda x: blended(x, grey(x), 1 + saturation),
        lambda x: turned(x, hue),
    )
    for part in order:
        images = parts[part](images)
    return images


def blended(images: Tensor, others: Tensor, weight: Tensor) -> Tensor:
    """weight · images + (1 − weight) · others, limited to 0 … 1; weights above 1 move away from the others."""
    return (others + weight * (images - others)).clamp(0, 1)


def grey(images: Tensor) -> Tensor:
    """[B, 3, h, w] -> [B, 1, h, w]"""
    weights = torch.tensor(LUMA, device=images.device)[:, None, None]
    return (images * weights).sum(dim=1, keepdim=True)


def turned(images: Tensor, share: Tensor) -> Tensor:
    """Hue moved by a share of the colour circle, [B, 1, 1, 1] or a number; the closed form of HSV and back."""
    high, low = images.amax(dim=1, keepdim=True), images.amin(dim=1, keepdim=True)
    chroma = high - low
    red, green, blue = images.split(1, dim=1)
    safe = chroma.clamp(min=1e-12)
    sector = torch.where(
        high == red,
        (green - blue) / safe,
        torch.where(high == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )  # [B, 1, h, w] in −1 … 5, sixths of a circle
    sector = sector + 6 * share
    # A channel is `high` within one sixth of its own hue (0, 2, 4), `low` beyond two, and falls linearly between.
    offsets = torch.tensor([0.0, 2.0, 4.0], device=images.device)[:, None, None]
    away = ((sector - offsets + 3) % 6 - 3).abs()  # [B, 3, h, w] in 0 … 3
    return low + chroma * (2 - away).clamp(0, 1)


def blurred(images: Tensor, sigma: Tensor) -> Tensor:
    """[B, 3, h, w], [B] -> [B, 3, h, w]: a Gaussian of its own for each image, as two small matrix products."""
    rows = _blur_matrix(sigma.to(images.device), images.shape[2])[:, None]  # [B, 1, h, h]
    columns = _blur_matrix(sigma.to(images.device), images.shape[3])[:, None]
    return rows @ images @ columns.transpose(-2, -1)


def _blur_matrix(sigma: Tensor, side: int) -> Tensor:
    """[B] -> [B, side, side]: weights of a Gaussian about a tenth of the side wide, mirrored at the edges; rows sum to 1."""
    radius = max(round(BLUR_KERNEL * side) // 2, 1)
    offsets = torch.arange(-radius, radius + 1, device=sigma.device)  # [k]
    weights = (-0.5 * (offsets / sigma[:, None]).square()).exp()  # [B, k]
    weights = weights / weights.sum(dim=1, keepdim=True)
    positions = torch.arange(side, device=sigma.device)[:, None] + offsets  # [side, k]
    positions = positions.abs()
    positions = torch.where(
        positions >= side, 2 * (side - 1) - positions, positions
    )  # mirrored without the edge itself
    matrix = torch.zeros(len(sigma), side, side, device=sigma.device)
    index = positions.expand(len(sigma), -1, -1)
    return matrix.scatter_add(2, index, weights[:, None].expand(-1, side, -1))


def solarised(images: Tensor) -> Tensor:
    """Bright values are inverted."""
    return torch.where(images >= SOLARISE_AT, 1 - images, images)
