"""BEiT's blocks: rectangles are added until an exact share of the patches is hidden (data2vec 60 %, CAE 50 %).

A block with too many new patches is skipped. Patches that are missing after some rounds come from the last block or, if that
is not enough, from anywhere.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from openjepa.core.contracts import mask_strategies
from openjepa.core.errors import BadInput
from openjepa.core.types import Grid, Masks
from openjepa.masks.block_shapes import Range, block_maps, check_range, uniform, uniform_integer

NUM_ROUNDS = 10


@mask_strategies.register("blockwise")
@dataclass(frozen=True, kw_only=True)
class Blockwise:
    """`target_scale` is the share of the patches that is hidden.

    >>> import torch
    >>> from openjepa.core.types import Grid
    >>> from openjepa.masks.blockwise import Blockwise
    >>> masks = Blockwise(target_scale=0.5)(2, Grid(8, 8), torch.Generator().manual_seed(0))
    >>> masks.context.shape, masks.targets.shape
    (torch.Size([2, 32]), torch.Size([2, 1, 32]))
    """

    target_scale: float = 0.6
    min_block: float = 16 / 196  # of the patches: BEiT's 16 on its 14×14 grid
    aspect: Range = (0.3, 1 / 0.3)

    def __post_init__(self) -> None:
        check_range("target_scale", (self.target_scale, self.target_scale), low=0, high=0.99)
        check_range("min_block", (self.min_block, self.min_block), low=0, high=1)
        check_range("aspect", self.aspect, low=0, high=100)

    def __call__(self, batch_size: int, grid: Grid, generator: torch.Generator) -> Masks:
        num_hidden = round(self.target_scale * grid.size)
        if not 0 < num_hidden < grid.size:
            raise BadInput(
                f"target_scale {self.target_scale:g} leaves no target or no context on a {grid} grid; use 0.5"
            )
        hidden = self.hide(torch.full((batch_size,), num_hidden), grid, generator)  # [B, N]
        targets = hidden.nonzero()[:, 1].unflatten(0, (batch_size, -1))
        context = (~hidden).nonzero()[:, 1].unflatten(0, (batch_size, -1))
        return Masks(context, targets[:, None])

    def hide(self, number: Tensor, grid: Grid, generator: torch.Generator) -> Tensor:
        """[B] counts -> [B, N] bool: True at exactly that many patches of each image."""
        hidden = torch.zeros(len(number), grid.size, dtype=torch.bool)
        block = hidden
        for _ in range(NUM_ROUNDS):
            missing = number - hidden.sum(dim=1)
            block = self._blocks(missing, grid, generator)
            new = block & ~hidden
            fits = (new.sum(dim=1) <= missing)[:, None]
            hidden = hidden | (new & fits)
        missing = number - hidden.sum(dim=1)
        # Patches of the last block come first, in random order, then others; those already hidden last.
        rank = torch.rand(hidden.shape, generator=generator) + (~block).float() + 2 * hidden.float()
        order = rank.argsort(dim=1).argsort(dim=1)  # [B, N]
        return hidden | (order < missing[:, None])

    def _blocks(self, missing: Tensor, grid: Grid, generator: torch.Generator) -> Tensor:
        """[B] -> [B, N] bool: one block per image, not much larger than the number of missing patches."""
        smallest = self.min_block * grid.size
        area = smallest + (missing - smallest).clamp(min=0) * torch.rand(len(missing), generator=generator)
        logs = (math.log(self.aspect[0]), math.log(self.aspect[1]))
        ratio = uniform((len(missing),), logs, generator).exp()
        height = (area * ratio).sqrt().round().long().clamp(1, grid.height)
        width = (area / ratio).sqrt().round().long().clamp(1, grid.width)
        top, left = uniform_integer(grid.height - height, generator), uniform_integer(grid.width - width, generator)
        return block_maps(top, left, height, width, grid)
