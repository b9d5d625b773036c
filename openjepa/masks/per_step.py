"""The masks of a run's steps, whatever the strategy."""

import torch

from openjepa.core import schema
from openjepa.core.contracts import MaskOptions, MaskStrategy, mask_strategies
from openjepa.core.types import Grid, Masks, Step


def built(given: MaskOptions, grid: Grid) -> MaskStrategy:
    """The strategy, tried once: a grid too small for it is said now, not at step 0."""
    strategy = schema.build(mask_strategies, given)
    strategy(1, grid, torch.Generator().manual_seed(0))
    return strategy


def of_step(strategy: MaskStrategy, step: Step, grid: Grid, number: int = 1) -> Masks:
    """`number` draws for each image that is ours, one behind the other; on the CPU, where a GPU need not wait for their count.

    Drawn for the global batch, so that an image's masks do not depend on how many processes share the work.
    """
    drawn = strategy(step.batch_size * number, grid, step.generator("masks"))
    return drawn.rows(slice(step.rows.start * number, step.rows.stop * number))
