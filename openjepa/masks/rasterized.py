"""One quadrant as context, the three others as targets (I-JEPA, table 6: 15.5 %).

The paper does not say which quadrant is the context; we draw it for each image.
"""

from dataclasses import dataclass

import torch

from openjepa.core.contracts import mask_strategies
from openjepa.core.errors import BadInput
from openjepa.core.types import Grid, Masks
from openjepa.masks.block_shapes import BlockSize, block_indices


@mask_strategies.register("rasterized")
@dataclass(frozen=True, kw_only=True)
class Rasterized:
    """It has no options.

    >>> import torch
    >>> from openjepa.core.types import Grid
    >>> from openjepa.masks.rasterized import Rasterized
    >>> masks = Rasterized()(2, Grid(8, 8), torch.Generator().manual_seed(0))
    >>> masks.context.shape, masks.targets.shape
    (torch.Size([2, 16]), torch.Size([2, 3, 16]))
    """

    def __call__(self, batch_size: int, grid: Grid, generator: torch.Generator) -> Masks:
        if grid.height % 2 or grid.width % 2:
            even = Grid(grid.height + grid.height % 2, grid.width + grid.width % 2)
            raise BadInput(f"rasterized masks need an even grid, not {grid}; choose image and patch size for {even}")
        size = BlockSize(grid.height // 2, grid.width // 2)
        corners = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
        quadrants = block_indices(corners[:, 0] * size.height, corners[:, 1] * size.width, size, grid)  # [4, N/4]
        order = torch.rand(batch_size, 4, generator=generator).argsort(dim=1)  # [B, 4]
        chosen = quadrants[order]  # [B, 4, N/4]
        return Masks(chosen[:, 0], chosen[:, 1:])
