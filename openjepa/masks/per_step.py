"""The masks of a training step, for any strategy."""

import torch

from openjepa.core import schema
from openjepa.core.contracts import MaskOptions, MaskStrategy, mask_strategies
from openjepa.core.types import Grid, Masks, Step


def build(options: MaskOptions, grid: Grid) -> MaskStrategy:
    """The strategy, tried once: a grid that is too small for it fails here, not at step 0."""
    strategy = schema.build(mask_strategies, options)
    strategy(1, grid, torch.Generator().manual_seed(0))
    return strategy


def draw(strategy: MaskStrategy, step: Step, grid: Grid, number: int = 1) -> Masks:
    """`number` draws for each image of this process, one after the other; on the CPU, because counting patches would sync a GPU.

    Drawn for the global batch, so that an image's masks do not depend on the number of processes.
    """
    masks = strategy(step.batch_size * number, grid, step.generator("masks"))
    return masks.rows(slice(step.rows.start * number, step.rows.stop * number))
