"""Random patches as targets, the rest as context (I-JEPA, table 6: 60 % of the patches, 17.6 % against 54.2 % for multi-block)."""

from dataclasses import dataclass

import torch

from openjepa.core.contracts import mask_strategies
from openjepa.core.errors import BadInput
from openjepa.core.types import Grid, Masks
from openjepa.masks.block_shapes import check_range


@mask_strategies.register("random")
@dataclass(frozen=True, kw_only=True)
class Random:
    """`target_scale` is the share of the patches that is hidden; MAE hides 0.75.

    >>> import torch
    >>> from openjepa.core.types import Grid
    >>> from openjepa.masks.random import Random
    >>> masks = Random(target_scale=0.75)(2, Grid(8, 8), torch.Generator().manual_seed(0))
    >>> masks.context.shape, masks.targets.shape
    (torch.Size([2, 16]), torch.Size([2, 1, 48]))
    """

    target_scale: float = 0.6

    def __post_init__(self) -> None:
        check_range("target_scale", (self.target_scale, self.target_scale), low=0, high=0.99)

    def __call__(self, batch_size: int, grid: Grid, generator: torch.Generator) -> Masks:
        num_targets = round(self.target_scale * grid.size)
        if not 0 < num_targets < grid.size:
            raise BadInput(
                f"target_scale {self.target_scale:g} leaves no target or no context on a {grid} grid; use 0.5"
            )
        order = torch.rand(batch_size, grid.size, generator=generator).argsort(dim=1)  # [B, N]
        targets, context = order.split([num_targets, grid.size - num_targets], dim=1)
        return Masks(context.sort(dim=1).values, targets.sort(dim=1).values[:, None])
