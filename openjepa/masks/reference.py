"""The published multi-block sampling with its quirks, to reproduce published numbers (own code, facts: docs/reference.md).

The quirks: one random number sets both scale and aspect; sizes stop one short of the grid; the last row and column are never
used; contexts are cut to the shortest of the batch by dropping their highest indices, so from the bottom right; and when 80 tries
leave no context, it may contain target patches (does not happen with the published settings on 12×12 and larger).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from openjepa.core.contracts import mask_strategies
from openjepa.core.errors import BadInput
from openjepa.core.types import Grid, Masks
from openjepa.masks.block_shapes import BlockSize, Range, block_indices, block_maps, check_count, check_range

TRIES_PER_CONSTRAINT = 20


@mask_strategies.register("reference")
@dataclass(frozen=True, kw_only=True)
class Reference:
    """The defaults are the published ones.

    >>> import torch
    >>> from openjepa.core.types import Grid
    >>> from openjepa.masks.reference import Reference
    >>> masks = Reference()(2, Grid(14, 14), torch.Generator().manual_seed(0))
    >>> masks.targets.shape[:2], bool((masks.targets // 14 == 13).any())  # the last row is never used
    (torch.Size([2, 4]), False)
    """

    num_targets: int = 4
    target_scale: Range = (0.15, 0.2)
    target_aspect: Range = (0.75, 1.5)
    context_scale: Range = (0.85, 1.0)
    min_keep: int = 10  # a mask must have more patches than this

    def __post_init__(self) -> None:
        check_count("num_targets", self.num_targets)
        check_range("target_scale", self.target_scale, low=0, high=1)
        check_range("target_aspect", self.target_aspect, low=0, high=100)
        check_range("context_scale", self.context_scale, low=0, high=1)

    def __call__(self, batch_size: int, grid: Grid, generator: torch.Generator) -> Masks:
        self._check(grid)
        target_size = correlated_size(grid, self.target_scale, self.target_aspect, generator)
        context_size = correlated_size(grid, self.context_scale, (1.0, 1.0), generator)
        top, left = _positions((batch_size, self.num_targets), target_size, grid, generator)
        blocks = _maps(top, left, target_size, grid)  # [B, M, N]
        free = self._contexts(blocks, context_size, grid, generator)  # [B, N]
        return Masks(_cut_to_shortest(free), block_indices(top, left, target_size, grid))

    def _check(self, grid: Grid) -> None:
        """The published code never ends when a block of fixed size has min_keep patches or fewer."""
        if min(grid) < 2:
            raise BadInput(f"reference masks need at least two rows and columns, not a {grid} grid; use multiblock")
        smallest = min(size_for(grid, self.target_scale, self.target_aspect, u / 1000).area for u in range(1000))
        smallest = min(smallest, size_for(grid, self.context_scale, (1.0, 1.0), 0.0).area)
        if smallest <= self.min_keep:
            works = smallest - 1
            raise BadInput(
                f"min_keep {self.min_keep} is not below the smallest block of a {grid} grid, {smallest} patches; "
                f"use min_keep={works}" + ("" if works > 0 else " with a larger grid")
            )

    def _contexts(self, blocks: Tensor, size: BlockSize, grid: Grid, generator: torch.Generator) -> Tensor:
        """[B, M, N] -> [B, N] bool. Every 20 failures one more target, the last first, no longer constrains the context."""
        num_images, num_targets, _ = blocks.shape
        free = torch.zeros(num_images, grid.size, dtype=torch.bool)
        open_images = torch.arange(num_images)
        for attempt in range(TRIES_PER_CONSTRAINT * num_targets + 1):
            constraints = num_targets - attempt // TRIES_PER_CONSTRAINT
            top, left = _positions((len(open_images),), size, grid, generator)
            taken = blocks[open_images, :constraints].any(dim=1)
            free[open_images] = _maps(top, left, size, grid) & ~taken
            open_images = open_images[free[open_images].sum(dim=1) <= self.min_keep]
            if not len(open_images):
                break
        return free


def size_for(grid: Grid, scale: Range, aspect: Range, u: float) -> BlockSize:
    """The block for one draw u in [0, 1): u = 0 is the smallest and flattest, u → 1 the largest and tallest."""
    area = math.floor(grid.size * (scale[0] + u * (scale[1] - scale[0])))
    ratio = aspect[0] + u * (aspect[1] - aspect[0])
    height, width = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
    return BlockSize(min(height, grid.height - 1), min(width, grid.width - 1))


def correlated_size(grid: Grid, scale: Range, aspect: Range, generator: torch.Generator) -> BlockSize:
    return size_for(grid, scale, aspect, torch.rand(1, generator=generator).item())


def _positions(
    shape: tuple[int, ...], size: BlockSize, grid: Grid, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The last possible row and column are never drawn: randint excludes its end."""
    top = torch.randint(grid.height - size.height, shape, generator=generator)
    left = torch.randint(grid.width - size.width, shape, generator=generator)
    return top, left


def _maps(top: Tensor, left: Tensor, size: BlockSize, grid: Grid) -> Tensor:
    return block_maps(top, left, torch.tensor(size.height), torch.tensor(size.width), grid)


def _cut_to_shortest(free: Tensor) -> Tensor:
    """[B, N] bool -> [B, K]: K is the smallest count of the batch; other images lose their highest indices."""
    num_context = int(free.sum(dim=1).min())
    chosen = free & (free.cumsum(dim=1) <= num_context)
    return chosen.nonzero()[:, 1].unflatten(0, (len(free), num_context))
