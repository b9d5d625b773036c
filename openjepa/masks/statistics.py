"""Measures a mask strategy on a grid: shares, overlap, and how often each row and column is used."""

from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from openjepa.core.contracts import MaskStrategy
from openjepa.core.types import Grid, Masks


@dataclass(frozen=True)
class Coverage:
    """Shares are of the grid's patches, averaged over images; rows and columns give the chance that a patch in them is used."""

    grid: tuple[int, int]
    num_images: int
    context_share: float
    target_share: float  # of the union of an image's targets
    block_patches: float  # patches per target block
    overlap: float  # share of images whose context contains a target patch; must be 0
    context_rows: list[float]
    context_columns: list[float]
    target_rows: list[float]
    target_columns: list[float]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def coverage(
    strategy: MaskStrategy, grid: Grid, *, batch_size: int, num_batches: int, generator: torch.Generator
) -> Coverage:
    """Counts over `num_batches` draws.

    >>> import torch
    >>> from openjepa.core.types import Grid
    >>> from openjepa.masks.random import Random
    >>> from openjepa.masks.statistics import coverage
    >>> generator = torch.Generator().manual_seed(0)
    >>> counts = coverage(Random(target_scale=0.75), Grid(8, 8), batch_size=4, num_batches=2, generator=generator)
    >>> counts.context_share, counts.target_share, counts.overlap
    (0.25, 0.75, 0.0)
    """
    context, target = torch.zeros(grid.size), torch.zeros(grid.size)
    overlapping, block_patches = 0, 0.0
    for _ in range(num_batches):
        masks = strategy(batch_size, grid, generator)
        context_map, target_map = occupancy(masks, grid)
        context += context_map.sum(dim=0)
        target += target_map.sum(dim=0)
        overlapping += int((context_map & target_map).any(dim=1).sum())
        block_patches += masks.targets.shape[2] / num_batches
    num_images = batch_size * num_batches
    context, target = (context / num_images).unflatten(0, grid), (target / num_images).unflatten(0, grid)
    return Coverage(
        grid=(grid.height, grid.width),
        num_images=num_images,
        context_share=context.mean().item(),
        target_share=target.mean().item(),
        block_patches=block_patches,
        overlap=overlapping / num_images,
        context_rows=context.mean(dim=1).tolist(),
        context_columns=context.mean(dim=0).tolist(),
        target_rows=target.mean(dim=1).tolist(),
        target_columns=target.mean(dim=0).tolist(),
    )


def occupancy(masks: Masks, grid: Grid) -> tuple[Tensor, Tensor]:
    """-> two [B, N] bool maps: patches of the context, patches of any target."""
    batch_size = len(masks.context)
    valid = torch.ones_like(masks.context, dtype=torch.bool) if masks.context_valid is None else masks.context_valid
    context = torch.zeros(batch_size, grid.size, dtype=torch.bool)
    context.scatter_reduce_(1, masks.context, valid, reduce="amax")
    target = torch.zeros(batch_size, grid.size, dtype=torch.bool)
    target.scatter_(1, masks.targets.flatten(1), True)
    return context, target
