"""A running mean over batches, processes and accumulation rounds: the center of DINO and iBOT."""

import torch
from torch import Tensor, nn

from openjepa.machine import distributed


class RunningMean(nn.Module):
    mean: Tensor  # [D]
    new: Tensor  # [D], the sum over this step's accumulation rounds

    def __init__(self, dim: int, momentum: float) -> None:
        super().__init__()
        self.momentum = momentum
        self.num_new = 0
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("new", torch.zeros(dim), persistent=False)

    @torch.no_grad()
    def collect(self, rows: Tensor) -> None:
        """[..., D]: `update` moves the mean towards these."""
        self.new += rows.float().flatten(0, -2).mean(dim=0)
        self.num_new += 1

    @torch.no_grad()
    def update(self) -> None:
        if self.num_new:
            self.mean.lerp_(distributed.mean(self.new / self.num_new), 1 - self.momentum)
            self.new.zero_()
            self.num_new = 0
