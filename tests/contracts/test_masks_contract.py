"""What every registered mask strategy must do; a new one is tested here before its author writes a test."""

import pytest
import torch

from openjepa.core.contracts import mask_strategies
from openjepa.core.types import Grid
from openjepa.masks.statistics import occupancy

GRIDS = [Grid(14, 14), Grid(12, 16)]
NAMES = mask_strategies.names()


def draw(name: str, grid: Grid, *, batch_size: int = 32, seed: int = 0):
    return mask_strategies[name]()(batch_size, grid, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_context_never_overlaps_targets(name: str, grid: Grid) -> None:
    for seed in range(20):
        context, targets = occupancy(draw(name, grid, seed=seed), grid)
        assert not (context & targets).any()


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_indices_lie_on_the_grid_and_do_not_repeat(name: str, grid: Grid) -> None:
    masks = draw(name, grid)
    rows = [*masks.context, *masks.targets.flatten(0, 1)]
    assert masks.context_valid is None
    for row in rows:
        assert row.min() >= 0 and row.max() < grid.size
        assert len(row.unique()) == len(row)


@pytest.mark.parametrize("name", NAMES)
def test_every_image_has_a_context_and_targets_of_its_own(name: str) -> None:
    masks = draw(name, Grid(14, 14), batch_size=16)
    assert masks.context.shape[0] == masks.targets.shape[0] == 16
    assert masks.context.shape[1] > 0 and masks.targets.shape[1] > 0 and masks.targets.shape[2] > 0
    assert len({tuple(row.flatten().tolist()) for row in masks.targets}) > 1


@pytest.mark.parametrize("name", NAMES)
def test_the_same_generator_gives_the_same_masks_and_another_does_not(name: str) -> None:
    first, again, other = (draw(name, Grid(14, 14), seed=seed) for seed in (3, 3, 4))
    assert torch.equal(first.context, again.context) and torch.equal(first.targets, again.targets)
    assert first.targets.shape != other.targets.shape or not torch.equal(first.targets, other.targets)


@pytest.mark.parametrize("name", NAMES)
def test_the_global_random_state_is_left_alone(name: str) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    draw(name, Grid(14, 14))
    assert torch.equal(before, torch.get_rng_state())
