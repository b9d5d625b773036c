"""What the strategies share: blocks on a grid, as sizes, positions, occupancy maps and index lists."""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from openjepa.core.errors import BadInput
from openjepa.core.types import Grid

Range = tuple[float, float]


class BlockSize(NamedTuple):
    height: int
    width: int

    @property
    def area(self) -> int:
        return self.height * self.width


def block_size(grid: Grid, scale: float, aspect: float) -> BlockSize:
    """The whole-patch block nearest to a share `scale` of the grid with height/width = aspect, at most the grid.

    >>> from openjepa.core.types import Grid
    >>> from openjepa.masks.block_shapes import block_size
    >>> block_size(Grid(14, 14), scale=0.2, aspect=1.0)
    BlockSize(height=6, width=7)
    """
    area = scale * grid.size
    height = min(max(round(math.sqrt(area * aspect)), 1), grid.height)
    # The width follows from the rounded height: rounding both would make blocks of 16 patches instead of 12.8 (8×8).
    return BlockSize(height, min(max(round(area / height), 1), grid.width))


@lru_cache(maxsize=64)
def largest_block_area(grid: Grid, scale: Range, aspect: Range) -> int:
    """Patches of the largest block that any draw from these ranges can give."""
    steps = [step / 40 for step in range(41)]
    scales, aspects = ([low + (high - low) * step for step in steps] for low, high in (scale, aspect))
    return max(block_size(grid, s, a).area for s in scales for a in aspects)


def context_block_size(grid: Grid, scale: Tensor) -> tuple[Tensor, Tensor]:
    """[B] -> heights [B], widths [B]: blocks with the grid's own proportions, square on a square grid as in the paper."""
    side = scale.sqrt()
    return (side * grid.height).round().long().clamp(min=1), (side * grid.width).round().long().clamp(min=1)


def uniform(shape: tuple[int, ...], limits: Range, generator: torch.Generator) -> Tensor:
    return limits[0] + (limits[1] - limits[0]) * torch.rand(shape, generator=generator)


def uniform_integer(high: Tensor, generator: torch.Generator) -> Tensor:
    """Integers 0 … high, both ends included, one for each element of `high`."""
    draw = torch.rand(high.shape, generator=generator, dtype=torch.float64)
    return (draw * (high + 1)).long().clamp_(max=high)


def block_indices(top: Tensor, left: Tensor, size: BlockSize, grid: Grid) -> Tensor:
    """[...], [...] -> [..., T]: the patch indices of blocks of one size, ascending."""
    rows = top[..., None, None] + torch.arange(size.height)[:, None]  # [..., h, 1]
    columns = left[..., None, None] + torch.arange(size.width)  # [..., 1, w]
    return (rows * grid.width + columns).flatten(-2)


def block_maps(top: Tensor, left: Tensor, height: Tensor, width: Tensor, grid: Grid) -> Tensor:
    """[...] four times -> [..., N] bool: True inside a block."""
    rows, columns = torch.arange(grid.height), torch.arange(grid.width)
    in_rows = (rows >= top[..., None]) & (rows < (top + height)[..., None])  # [..., gh]
    in_columns = (columns >= left[..., None]) & (columns < (left + width)[..., None])  # [..., gw]
    return (in_rows[..., :, None] & in_columns[..., None, :]).flatten(-2)


def check_range(name: str, limits: Range, *, low: float, high: float) -> None:
    """Requires low < start ≤ end ≤ high."""
    if not low < limits[0] <= limits[1] <= high:
        raise BadInput(
            f"{name} {list(limits)} is not a range above {low:g} and up to {high:g}; write [smaller, larger]"
        )


def check_count(name: str, count: int) -> None:
    if count < 1:
        raise BadInput(f"{name} is {count}; use 1 or more")
