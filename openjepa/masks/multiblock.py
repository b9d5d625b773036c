"""I-JEPA's multi-block masks (section 3 and appendix), correct by construction.

The published sampler never uses the last row and column, cuts contexts from the bottom only, and lets the batch size decide
how much context there is (docs/reference.md). Here scale and aspect are drawn independently, blocks reach every edge, and
the number of context patches is a setting, so an image's masks follow the same distribution in any batch.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from openjepa.core.contracts import mask_strategies
from openjepa.core.errors import BadInput
from openjepa.core.types import Grid, Masks
from openjepa.masks.block_shapes import (
    BlockSize,
    Range,
    block_indices,
    block_maps,
    block_size,
    check_count,
    check_range,
    context_block_size,
    largest_block_area,
    uniform,
    uniform_integer,
)

NUM_REDRAWS = 50  # then all target blocks of the image get one position, which always leaves enough context


@mask_strategies.register("multiblock")
@dataclass(frozen=True, kw_only=True)
class MultiBlock:
    """Scales are shares of the grid's patches.

    `context_share` is the size of a context without the targets, as a share of the grid (the paper reports 0.25 on average).
    `equalize` says what happens to larger contexts: `side` cuts them from a random side, so that one piece remains, `subset`
    chooses random patches, `pad` cuts nothing and pads shorter contexts.

    >>> import torch
    >>> from openjepa.core.types import Grid
    >>> from openjepa.masks.multiblock import MultiBlock
    >>> masks = MultiBlock()(2, Grid(8, 8), torch.Generator().manual_seed(0))
    >>> masks.context.shape, masks.targets.shape
    (torch.Size([2, 16]), torch.Size([2, 4, 12]))
    """

    num_targets: int = 4
    target_scale: Range = (0.15, 0.2)
    target_aspect: Range = (0.75, 1.5)
    context_scale: Range = (0.85, 1.0)
    context_share: float = 0.25
    equalize: Literal["side", "subset", "pad"] = "side"

    def __post_init__(self) -> None:
        check_count("num_targets", self.num_targets)
        check_range("target_scale", self.target_scale, low=0, high=1)
        check_range("target_aspect", self.target_aspect, low=0, high=100)
        check_range("context_scale", self.context_scale, low=0, high=1)
        check_range("context_share", (self.context_share, self.context_share), low=0, high=1)

    def __call__(self, batch_size: int, grid: Grid, generator: torch.Generator) -> Masks:
        scale = uniform((1,), self.target_scale, generator).item()
        aspect = uniform((1,), self.target_aspect, generator).item()
        size = block_size(grid, scale, aspect)  # one size per batch, so that targets form a tensor
        num_context = self._count_context(grid)
        draw = _Draw(self, grid, size)
        top, left, free = draw.blocks(batch_size, generator)
        for _ in range(NUM_REDRAWS):
            poor = (free.sum(dim=1) < num_context).nonzero().squeeze(1)
            if not len(poor):
                break
            top[poor], left[poor], free[poor] = draw.blocks(len(poor), generator)
        else:
            poor = (free.sum(dim=1) < num_context).nonzero().squeeze(1)
            top[poor], left[poor], free[poor] = draw.stacked_blocks(len(poor), generator)
        context, valid = self._equalize(free, num_context, grid, generator)
        return Masks(context, block_indices(top, left, size, grid), valid)

    def _count_context(self, grid: Grid) -> int:
        """K, and the one check that the grid is large enough: a context block minus the largest target must hold K."""
        num_context = max(round(self.context_share * grid.size), 1)
        height, width = context_block_size(grid, torch.tensor(self.context_scale[0]))
        largest = largest_block_area(grid, self.target_scale, self.target_aspect)
        available = int(height * width) - largest
        if available >= num_context:
            return num_context
        share = math.floor(100 * (available + 0.4) / grid.size) / 100
        advice = (
            f"use context_share={share:g}"
            if share > 0
            else "use a larger image, smaller patches or a smaller target_scale"
        )
        raise BadInput(
            f"a {grid} grid cannot hold a target block of {largest} patches beside a context of {num_context} patches "
            f"(context_share {self.context_share:g}); {advice}"
        )

    def _equalize(
        self, free: Tensor, num_context: int, grid: Grid, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None]:
        """[B, N] bool -> [B, K] ascending indices, and which of them are not padding (None: all)."""
        if self.equalize == "pad":
            return _padded(free)
        if self.equalize == "subset":
            order = torch.rand(free.shape, generator=generator).argsort(dim=1)  # [B, N]
        else:
            scans = scan_orders(grid)  # [8, N]
            order = scans[torch.randint(len(scans), (len(free),), generator=generator)]  # [B, N]
        in_order = free.gather(1, order)
        chosen = in_order & (in_order.cumsum(dim=1) <= num_context)  # the first K free patches of the scan
        chosen = torch.zeros_like(free).scatter_(1, order, chosen)
        return chosen.nonzero()[:, 1].unflatten(0, (len(free), num_context)), None


@dataclass(frozen=True)
class _Draw:
    """Positions of targets and context for some images, given the target size of this batch."""

    options: MultiBlock
    grid: Grid
    size: BlockSize

    def blocks(self, num_images: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """-> top [B, M], left [B, M], free [B, N]: patches of the context block that no target covers."""
        shape = (num_images, self.options.num_targets)
        # uniform_integer includes its end: a block may touch the bottom and right edges
        top = uniform_integer(torch.full(shape, self.grid.height - self.size.height), generator)
        left = uniform_integer(torch.full(shape, self.grid.width - self.size.width), generator)
        return top, left, self._context(num_images, generator) & ~self._covered(top, left)

    def stacked_blocks(self, num_images: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """The same with all targets of an image at one position; `_count_context` made sure that this leaves enough context."""
        top, left, _ = self.blocks(num_images, generator)
        top, left = top[:, :1].expand_as(top), left[:, :1].expand_as(left)
        return top, left, self._context(num_images, generator) & ~self._covered(top, left)

    def _covered(self, top: Tensor, left: Tensor) -> Tensor:
        height, width = (torch.tensor(side) for side in self.size)
        return block_maps(top, left, height, width, self.grid).any(dim=1)  # [B, N]

    def _context(self, num_images: int, generator: torch.Generator) -> Tensor:
        """-> [B, N] bool: one context block per image, each with its own size and position."""
        height, width = context_block_size(self.grid, uniform((num_images,), self.options.context_scale, generator))
        top = uniform_integer(self.grid.height - height, generator)
        left = uniform_integer(self.grid.width - width, generator)
        return block_maps(top, left, height, width, self.grid)


def scan_orders(grid: Grid) -> Tensor:
    """-> [8, N]: row by row and column by column from each of the four corners.

    The first K patches of a scan leave out the opposite side; with all eight equally likely no side is favoured.
    """
    index = torch.arange(grid.size).unflatten(0, grid)  # [gh, gw]
    flips: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (0, 1))
    flipped = [index.flip(axes) for axes in flips]
    return torch.stack([x.flatten() for x in flipped] + [x.T.flatten() for x in flipped])


def _padded(free: Tensor) -> tuple[Tensor, Tensor]:
    """[B, N] bool -> indices [B, K] and valid [B, K], K = the longest context; padding repeats patch 0 and is masked."""
    lengths = free.sum(dim=1)
    valid = torch.arange(int(lengths.max())) < lengths[:, None]  # [B, K]
    context = torch.zeros(valid.shape, dtype=torch.long)
    context[valid] = free.nonzero()[:, 1]
    return context, valid
