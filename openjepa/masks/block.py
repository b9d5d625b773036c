"""One large block as target, its complement as context (I-JEPA, table 6: scale 0.6, 20.2 %).

The paper does not state the block's aspect ratio; we use multi-block's range.
"""

from dataclasses import dataclass

import torch

from openjepa.core.contracts import mask_strategies
from openjepa.core.errors import BadInput
from openjepa.core.types import Grid, Masks
from openjepa.masks.block_shapes import (
    Range,
    block_indices,
    block_maps,
    block_size,
    check_range,
    largest_block_area,
    uniform,
    uniform_integer,
)


@mask_strategies.register("block")
@dataclass(frozen=True, kw_only=True)
class Block:
    """`target_scale` is the block's share of the grid.

    >>> import torch
    >>> from openjepa.core.types import Grid
    >>> from openjepa.masks.block import Block
    >>> masks = Block(target_aspect=(1.0, 1.0))(2, Grid(8, 8), torch.Generator().manual_seed(0))
    >>> masks.context.shape, masks.targets.shape
    (torch.Size([2, 28]), torch.Size([2, 1, 36]))
    """

    target_scale: float = 0.6
    target_aspect: Range = (0.75, 1.5)

    def __post_init__(self) -> None:
        check_range("target_scale", (self.target_scale, self.target_scale), low=0, high=0.99)
        check_range("target_aspect", self.target_aspect, low=0, high=100)

    def __call__(self, batch_size: int, grid: Grid, generator: torch.Generator) -> Masks:
        scale = (self.target_scale, self.target_scale)
        size = block_size(grid, self.target_scale, uniform((1,), self.target_aspect, generator).item())
        if largest_block_area(grid, scale, self.target_aspect) == grid.size:
            raise BadInput(f"target_scale {self.target_scale:g} covers the whole {grid} grid; use 0.3 or a larger grid")
        height, width = torch.tensor(size.height), torch.tensor(size.width)
        top = uniform_integer((grid.height - height).expand(batch_size), generator)
        left = uniform_integer((grid.width - width).expand(batch_size), generator)
        free = ~block_maps(top, left, height, width, grid)  # [B, N]
        context = free.nonzero()[:, 1].unflatten(0, (batch_size, -1))
        return Masks(context, block_indices(top, left, size, grid)[:, None])
