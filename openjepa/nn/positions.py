"""Fixed 2-D sine-cosine positions, computed for any grid instead of interpolated (I-JEPA, section 3; layout of the published code).

The first half of the channels encodes the column, the second half the row; in each half first sines, then cosines.
"""

from functools import lru_cache

import torch
from torch import Tensor

from openjepa.core.errors import BadInput
from openjepa.core.types import Grid


@lru_cache(maxsize=32)
def sincos(grid: Grid, dim: int, extent: Grid | None = None) -> Tensor:
    """(height, width), D -> [N, D] float32 on the CPU; the cached table is shared, so never change it in place.

    Coordinates are whole numbers or, with `extent`, spread over those of a grid of that size, as interpolation would do it.

    >>> from openjepa.core.types import Grid
    >>> from openjepa.nn.positions import sincos
    >>> sincos(Grid(4, 6), dim=16).shape
    torch.Size([24, 16])
    """
    if dim % 4:
        raise BadInput(f"width {dim} is not a multiple of 4, which sine-cosine positions need; use {dim - dim % 4 + 4}")
    extent = extent or grid
    axes = (_coordinates(grid.height, extent.height), _coordinates(grid.width, extent.width))
    rows, columns = torch.meshgrid(*axes, indexing="ij")
    halves = [_axis(columns.flatten(), dim // 2), _axis(rows.flatten(), dim // 2)]
    return torch.cat(halves, dim=1).float()  # [N, D]


def _coordinates(number: int, extent: int) -> Tensor:
    """-> [number]: the centers of `number` equal parts of `extent` unit cells."""
    return (torch.arange(number, dtype=torch.float64) + 0.5) * (extent / number) - 0.5


def _axis(coordinates: Tensor, dim: int) -> Tensor:
    """[N] -> [N, dim] float64: sines, then cosines, wavelengths from 2π to 10000·2π."""
    frequencies = 10000.0 ** (-torch.arange(dim // 2, dtype=torch.float64) / (dim // 2))
    angles = coordinates[:, None].double() * frequencies  # [N, dim/2]
    return torch.cat([angles.sin(), angles.cos()], dim=1)
