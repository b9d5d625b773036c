"""Which images make up step i: a pure function of (seed, step), so a run can resume anywhere with nothing saved."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from openjepa.core import seeding
from openjepa.core.errors import BadInput


@dataclass(frozen=True)
class Order:
    """A new permutation each epoch; the few images that do not fill a last batch wait for the next epoch."""

    num_images: int
    batch_size: int  # global
    seed: int

    def __post_init__(self) -> None:
        if self.num_images < self.batch_size:
            raise BadInput(
                f"batch size {self.batch_size} is larger than the data set of {self.num_images} images; "
                f"use --set train.batch_size={self.num_images} or less"
            )

    @property
    def steps_per_epoch(self) -> int:
        return self.num_images // self.batch_size

    def indices(self, step: int) -> Tensor:
        """-> [B] int64"""
        epoch, position = divmod(step, self.steps_per_epoch)
        start = position * self.batch_size
        return _permutation(self.num_images, self.seed, epoch)[start : start + self.batch_size]


@lru_cache(maxsize=2)
def _permutation(num_images: int, seed: int, epoch: int) -> Tensor:
    return torch.randperm(num_images, generator=seeding.generator(seed, "order", epoch))


@dataclass(frozen=True, kw_only=True)
class Split:
    """How a global batch is shared between accumulation rounds and processes: round-major, then rank."""

    batch_size: int
    accumulate: int = 1
    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        parts = self.accumulate * self.world_size
        if self.batch_size % parts:
            raise BadInput(
                f"batch size {self.batch_size} cannot be shared equally by {self.world_size} processes and "
                f"{self.accumulate} accumulation rounds; use a multiple of {parts}"
            )

    @property
    def size(self) -> int:
        """Images in one round of one process."""
        return self.batch_size // (self.accumulate * self.world_size)

    def rows(self, accumulation_round: int) -> slice:
        start = (accumulation_round * self.world_size + self.rank) * self.size
        return slice(start, start + self.size)
