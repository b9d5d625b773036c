"""Every registered mask strategy keeps its promises (openjepa/checks/masks.py), and a broken promise is noticed."""

from dataclasses import replace

import pytest
import torch

from openjepa import checks
from openjepa.core.contracts import mask_strategies
from openjepa.core.types import Grid, Masks
from openjepa.masks.multiblock import MultiBlock

NAMES = mask_strategies.names()


@pytest.mark.parametrize("name", NAMES)
def test_a_registered_mask_strategy_keeps_its_promises(name: str) -> None:
    checks.mask(mask_strategies[name]())


@pytest.mark.parametrize("name", NAMES)
def test_a_registered_mask_strategy_needs_no_padding_by_default(name: str) -> None:
    masks = mask_strategies[name]()(8, Grid(14, 14), torch.Generator().manual_seed(0))
    assert masks.context_valid is None


def test_padded_contexts_keep_the_promises() -> None:
    checks.mask(MultiBlock(equalize="pad"))


def good(batch_size: int, grid: Grid, generator: torch.Generator) -> Masks:
    order = torch.rand(batch_size, grid.size, generator=generator).argsort(dim=1)
    return Masks(order[:, :20], order[:, None, 20:30])


def overlapping(batch_size, grid, generator):
    masks = good(batch_size, grid, generator)
    return replace(masks, context=masks.targets[:, 0])


def outside(batch_size, grid, generator):
    masks = good(batch_size, grid, generator)
    return replace(masks, targets=masks.targets + grid.size)


def repeating(batch_size, grid, generator):
    masks = good(batch_size, grid, generator)
    return replace(masks, context=masks.context[:, [0, 0, 1]])


def without_context(batch_size, grid, generator):
    masks = good(batch_size, grid, generator)
    return replace(masks, context_valid=torch.zeros(masks.context.shape, dtype=torch.bool))


def alike(batch_size, grid, generator):
    masks = good(1, grid, generator)
    return Masks(masks.context.expand(batch_size, -1), masks.targets.expand(batch_size, -1, -1))


def of_other_size(batch_size, grid, generator):
    return good(batch_size - 1, grid, generator)


def flat(batch_size, grid, generator):
    masks = good(batch_size, grid, generator)
    return replace(masks, targets=masks.targets[:, 0])


def empty(batch_size, grid, generator):
    masks = good(batch_size, grid, generator)
    return replace(masks, context=masks.context[:, :0])


def narrow(batch_size, grid, generator):
    masks = good(batch_size, grid, generator)
    return replace(masks, context=masks.context.int())


def from_the_global_generator(batch_size, grid, generator):
    return good(batch_size, grid, torch.default_generator)


def with_a_memory(batch_size, grid, generator, seeds=iter(range(1000))):  # noqa: B008 - shared on purpose
    return good(batch_size, grid, torch.Generator().manual_seed(next(seeds)))


def always_the_same(batch_size, grid, generator):
    return good(batch_size, grid, torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (overlapping, "contains a target patch"),
        (outside, "outside the 14×14 grid"),
        (repeating, "same patch twice"),
        (without_context, "has no context"),
        (alike, "the same targets"),
        (of_other_size, "for 32 images"),
        (flat, r"expected \[B, K\] and \[B, M, T\]"),
        (empty, "is empty"),
        (narrow, "not int64"),
        (from_the_global_generator, "global generator"),
        (with_a_memory, "one seed give different masks"),
        (always_the_same, "different seeds give the same"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_broken_promise_is_noticed(strategy, message: str) -> None:
    checks.mask(good)
    with pytest.raises(AssertionError, match=message):
        checks.mask(strategy)
