"""Removes from target tokens what they have in common over images (docs/decisions/0002-target-centering.md). Not in the paper.

`position`: subtracts the mean of each position. Without it small models learn *where* a patch is and not *what* it shows.
`whiten`: also gives all directions the same variance. A few of them, such as brightness and colour, have most of the variance of
a young encoder's tokens; without whitening they dominate the loss, and nothing else is learned.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from openjepa.machine import distributed
from openjepa.machine.precision import full_precision
from openjepa.nn.whitening import whitening

Kind = Literal["position", "whiten"]
MOMENTUM = 0.99  # forgets in about 100 steps; not tuned
RIDGE = 0.1  # of the mean variance: directions far below it are noise and are not amplified
REFRESH = 10  # steps between two whitening maps: they change slowly and take a second at D = 1280


class Centering(nn.Module):
    mean: Tensor  # [N, D], the mean over images at each position
    covariance: Tensor  # [D, D], of tokens minus that mean
    whitener: Tensor  # [D, D], symmetric: covariance to the power -1/2
    new_mean: Tensor  # [N, D] and …
    new_covariance: Tensor  # … [D, D]: sums over this step's batches, relative to the running mean

    def __init__(self, num_patches: int, dim: int, kind: Kind) -> None:
        super().__init__()
        self.whitens = kind == "whiten"
        self.num_new = 0
        self.register_buffer("mean", torch.zeros(num_patches, dim))
        self.register_buffer("new_mean", torch.zeros(num_patches, dim), persistent=False)
        if self.whitens:
            self.register_buffer("covariance", torch.zeros(dim, dim))
            self.register_buffer("whitener", torch.eye(dim))
            self.register_buffer("new_covariance", torch.zeros(dim, dim), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, N, D] -> [B, N, D]: only what differs between images remains to predict; in float32 also under autocast."""
        with full_precision(tokens):
            centred = tokens.float() - self.mean
            if self.training:
                self._collect(centred)
            return centred @ self.whitener if self.whitens else centred

    def _collect(self, centred: Tensor) -> None:
        self.num_new += 1
        self.new_mean += centred.mean(dim=0)
        if self.whitens:
            flat = centred.flatten(0, 1)  # [B·N, D]
            self.new_covariance += flat.T @ flat / len(flat)

    @torch.no_grad()
    def update(self, index: int) -> None:
        """After step `index`, over all processes. The first steps average plainly: the first batch replaces the zeros."""
        if not self.num_new:
            return
        weight = 1 - min(MOMENTUM, index / (index + 1))
        drift = self._pop(self.new_mean)  # of this step's mean from the running one
        self.mean.add_(drift, alpha=weight)
        if self.whitens:
            # Collected around the running mean, zero at first: without the drift, positions would count as variance.
            self.covariance.lerp_(self._pop(self.new_covariance) - drift.T @ drift / len(drift), weight)
            is_due = index < REFRESH or index % REFRESH == 0
            if is_due and self.covariance.isfinite().all():  # if not, the training loop reports the loss
                self.whitener.copy_(whitening(self.covariance, relative_ridge=RIDGE, is_symmetric=True))
        self.num_new = 0

    def _pop(self, new: Tensor) -> Tensor:
        """The mean over this step's batches and all processes; resets the sum."""
        mean = distributed.mean(new / self.num_new)
        new.zero_()
        return mean
