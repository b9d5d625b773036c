"""Some of each class: how test sets, validation sets and small label budgets are taken from labelled data."""

import torch
from torch import Tensor


def shuffled_ranks(labels: Tensor, generator: torch.Generator) -> Tensor:
    """[S] -> [S]: the rank of each sample in a random order of its own class, counted from 0."""
    order = torch.randperm(len(labels), generator=generator)
    by_class = order[labels[order].argsort(stable=True)]  # classes one after the other, each in random order
    sizes = labels.bincount()
    starts = sizes.cumsum(0) - sizes
    ranks = torch.empty_like(labels)
    ranks[by_class] = torch.arange(len(labels)) - starts[labels[by_class]]
    return ranks


def split(labels: Tensor, share: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """[S] -> (rest, part), two sorted lists of rows: `part` has about this share of every class.

    A class of two or more gives at least one to `part` and keeps at least one; a class of one keeps it.
    """
    sizes = labels.bincount()
    taken = (share * sizes).round().long().clamp(min=1).minimum(sizes - 1).clamp(min=0)
    is_part = shuffled_ranks(labels, generator) < taken[labels]
    return (~is_part).nonzero().squeeze(1), is_part.nonzero().squeeze(1)
