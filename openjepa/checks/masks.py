"""What every mask strategy promises."""

from collections.abc import Sequence

import torch
from torch import Tensor

from openjepa.core.contracts import MaskStrategy
from openjepa.core.types import Grid, Masks
from openjepa.masks.statistics import occupancy

GRIDS = (Grid(14, 14), Grid(12, 16))
BATCH_SIZE = 32
NUM_DRAWS = 20


def mask(strategy: MaskStrategy, grids: Sequence[Grid] = GRIDS) -> None:
    """Draws masks on each grid; give other grids if yours needs them.

    >>> from openjepa import checks
    >>> from openjepa.core.types import Grid
    >>> from openjepa.masks.multiblock import MultiBlock
    >>> checks.mask(MultiBlock())
    >>> checks.mask(MultiBlock(target_scale=(0.1, 0.1)), grids=[Grid(8, 8)])
    """
    for grid in grids:
        _check_generator(strategy, grid)
        for seed in range(NUM_DRAWS):
            masks = _draw(strategy, grid, seed)
            _check_shapes(masks)
            _check_indices(masks, grid)
            context, targets = occupancy(masks, grid)
            assert not (context & targets).any(), f"a context contains a target patch (grid {grid}, seed {seed})"


def _draw(strategy: MaskStrategy, grid: Grid, seed: int) -> Masks:
    assert not isinstance(strategy, type), f"{strategy.__name__} is a class; give an instance, {strategy.__name__}()"
    masks = strategy(BATCH_SIZE, grid, torch.Generator().manual_seed(seed))
    assert isinstance(masks, Masks), f"the strategy returns {type(masks).__name__}, not Masks"
    return masks


def _check_generator(strategy: MaskStrategy, grid: Grid) -> None:
    before = torch.get_rng_state()
    first, again, other = (_draw(strategy, grid, seed) for seed in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state()), (
        "the strategy draws from torch's global generator, not from the generator it is given"
    )
    is_same = torch.equal(first.context, again.context) and torch.equal(first.targets, again.targets)
    assert is_same, "two generators with one seed give different masks"
    is_other = first.targets.shape != other.targets.shape or not torch.equal(first.targets, other.targets)
    assert is_other, "generators with different seeds give the same targets"


def _check_shapes(masks: Masks) -> None:
    context, targets = masks.context, masks.targets
    shapes = f"context is {list(context.shape)} and targets are {list(targets.shape)}"
    assert context.ndim == 2 and targets.ndim == 3, f"{shapes}; expected [B, K] and [B, M, T]"
    assert len(context) == len(targets) == BATCH_SIZE, f"{shapes} for {BATCH_SIZE} images"
    assert context.numel() and targets.numel(), f"{shapes}: one of them is empty"
    assert context.dtype == targets.dtype == torch.int64, f"indices are {context.dtype} and {targets.dtype}, not int64"
    assert (targets != targets[:1]).any(), "all images of a batch have the same targets"


def _check_indices(masks: Masks, grid: Grid) -> None:
    """Padding may repeat patches, so each padded position gets an index of its own behind the grid's."""
    padding = grid.size + torch.arange(masks.context.shape[1])
    valid = masks.context_valid
    context = masks.context if valid is None else torch.where(valid, masks.context, padding)
    assert valid is None or valid.any(dim=1).all(), "an image has no context"
    for name, index in (("context", context), ("target block", masks.targets)):
        real = index if valid is None or name != "context" else index[valid]
        assert real.min() >= 0 and real.max() < grid.size, f"a {name} index is outside the {grid} grid"
        assert not _repeats(index), f"a {name} has the same patch twice"


def _repeats(index: Tensor) -> bool:
    """[..., I] -> whether any row has an index twice."""
    ordered = index.sort(dim=-1).values
    return bool((ordered[..., 1:] == ordered[..., :-1]).any())
