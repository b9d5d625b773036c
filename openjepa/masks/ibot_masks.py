"""iBOT's masks: in half of the images nothing is hidden, in the others BEiT's blocks over a random share of the patches."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from openjepa.core.numbers import Share
from openjepa.core.types import Grid
from openjepa.masks.blockwise import Blockwise


@dataclass(frozen=True)
class Hiding:
    chance: Share = 0.5
    share: tuple[Share, Share] = (0.1, 0.5)
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, never changed

    def draw(self, batch_size: int, grid: Grid, generator: torch.Generator) -> Tensor:
        """-> [B, N] bool"""
        sizes, chances = torch.rand(2, batch_size, generator=generator)
        share = self.share[0] + (self.share[1] - self.share[0]) * sizes
        number = (share * grid.size).round().long() * (chances < self.chance)
        smallest = (min(grid) // 3) ** 2 / grid.size  # published: the square of a third of the side
        return Blockwise(min_block=max(smallest, 1 / grid.size)).hide(number, grid, generator)


@dataclass(frozen=True)
class Hidden:
    """Which patches are hidden, as a map and as a list, padded to a multiple of the number of images.

    Without padding each step allocates tensors of a new size, and the allocator holds on to all of them: 0.8 GB became 2.
    """

    mask: Tensor  # [B, N] bool
    index: Tensor  # [H] in [B·N]
    weights: Tensor  # [H]: 1 / number of hidden patches of the same image; 0 for padding

    @staticmethod
    def of(mask: Tensor) -> "Hidden":
        """[B, N] bool, on the CPU: nonzero() would sync the GPU."""
        index = mask.flatten().nonzero().squeeze(1)
        weights = (mask / mask.sum(dim=1, keepdim=True).clamp(min=1)).flatten()[index]
        padding = (0, -len(index) % len(mask))
        return Hidden(mask, F.pad(index, padding), F.pad(weights, padding))

    def to(self, device: torch.device) -> "Hidden":
        return Hidden(*(tensor.to(device, non_blocking=True) for tensor in (self.mask, self.index, self.weights)))

    def pick(self, tokens: Tensor) -> Tensor:
        """[B, N, D] -> [H, D]"""
        return tokens.flatten(0, 1)[self.index]
