"""What target tokens have in common over images, taken out of them (docs/decisions/0002-target-centring.md). Not in the paper.

`position`: minus the mean of each place. Without it small models learn *where* a patch is and not *what* it shows.
`whiten`: and then all directions get the same spread. A few of them, such as brightness and colour, hold most of the spread of
a young encoder's tokens; left alone they are all that the loss sees, and all that is learned.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from openjepa.machine import distributed
from openjepa.machine.precision import full_precision
from openjepa.nn.whitening import whitening

Kind = Literal["position", "whiten"]
MOMENTUM = 0.99  # forgets in about 100 steps; a first guess, not tuned
RIDGE = 0.1  # of the mean spread: directions far below it are noise and are not blown up
REFRESH = 10  # steps between two whitening maps: they change slowly, and take a second at D = 1280


class Centring(nn.Module):
    mean: Tensor  # [N, D], what a place has on average over images
    covariance: Tensor  # [D, D], of tokens without that
    whitener: Tensor  # [D, D], symmetric: covariance to the power -1/2
    new_mean: Tensor  # [N, D], around the running one, and …
    new_covariance: Tensor  # … [D, D], the sums over this step's batches, which will move them

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
        """[B, N, D] -> [B, N, D]: only what differs between images is left to predict; in float32 also under autocast."""
        with full_precision(tokens):
            centred = tokens.float() - self.mean
            if self.training:
                self._note(centred)
            return centred @ self.whitener if self.whitens else centred

    def _note(self, centred: Tensor) -> None:
        self.num_new += 1
        self.new_mean += centred.mean(dim=0)
        if self.whitens:
            flat = centred.flatten(0, 1)  # [B·N, D]
            self.new_covariance += flat.T @ flat / len(flat)

    @torch.no_grad()
    def update(self, index: int) -> None:
        """After step `index`, over all processes. The first means are plain ones: the first batch replaces the zeros."""
        if not self.num_new:
            return
        weight = 1 - min(MOMENTUM, index / (index + 1))
        drift = self._taken(self.new_mean)  # of this step's mean from the running one
        self.mean.add_(drift, alpha=weight)
        if self.whitens:
            # Noted around the running mean, which is zero at first: without the drift, places would count as spread.
            self.covariance.lerp_(self._taken(self.new_covariance) - drift.T @ drift / len(drift), weight)
            is_due = index < REFRESH or index % REFRESH == 0
            if is_due and self.covariance.isfinite().all():  # else the loop will say what is wrong, in words
                self.whitener.copy_(whitening(self.covariance, relative_ridge=RIDGE, is_symmetric=True))
        self.num_new = 0

    def _taken(self, new: Tensor) -> Tensor:
        """What one step noted, over its batches and all processes; the notes start anew."""
        taken = distributed.mean(new / self.num_new)
        new.zero_()
        return taken
