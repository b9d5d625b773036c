"""What target tokens have in common over images, taken out of them (docs/decisions/0002-target-centring.md). Not in the paper.

`position`: minus the mean of each place. Without it small models learn *where* a patch is and not *what* it shows.
`whiten`: and then all directions get the same spread. A few of them, such as brightness and colour, hold most of the spread of
a young encoder's tokens; left alone they are all that the loss sees, and all that is learned.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from openjepa.engine import distributed

Kind = Literal["position", "whiten"]
MOMENTUM = 0.99  # forgets in about 100 steps; a first guess, not tuned
RIDGE = 0.1  # of the mean spread: directions far below it are noise and are not blown up
REFRESH = 10  # steps between two whitening maps: they change slowly, and take a second at D = 1280


class Centring(nn.Module):
    mean: Tensor  # [N, D], what a place has on average over images
    covariance: Tensor  # [D, D], of tokens without that
    whitener: Tensor  # [D, D], symmetric: covariance to the power -1/2
    new_mean: Tensor  # [N, D] and …
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
        with torch.autocast(tokens.device.type, enabled=False):
            tokens = tokens.float()
            if self.training:
                self._note(tokens)
            centred = tokens - self.mean
            return centred @ self.whitener if self.whitens else centred

    def _note(self, tokens: Tensor) -> None:
        self.num_new += 1
        mean = tokens.mean(dim=0)
        self.new_mean += mean
        if self.whitens:
            # Around the batch's own mean: the running one is zero at first, and places would count as spread.
            flat = (tokens - mean).flatten(0, 1)  # [B·N, D]
            self.new_covariance += flat.T @ flat / len(flat)

    @torch.no_grad()
    def update(self, index: int) -> None:
        """After step `index`, over all processes. The first means are plain ones: the first batch replaces the zeros."""
        if not self.num_new:
            return
        weight = 1 - min(MOMENTUM, index / (index + 1))
        self._move(self.mean, self.new_mean, weight)
        if self.whitens:
            self._move(self.covariance, self.new_covariance, weight)
            is_due = index < REFRESH or index % REFRESH == 0
            if is_due and self.covariance.isfinite().all():  # else the loop will say what is wrong, in words
                self.whitener.copy_(inverse_root(self.covariance))
        self.num_new = 0

    def _move(self, running: Tensor, new: Tensor, weight: float) -> None:
        running.lerp_(distributed.mean(new / self.num_new), weight)
        new.zero_()


def inverse_root(covariance: Tensor) -> Tensor:
    """[D, D] -> [D, D]: (covariance + ridge)^(-1/2), in double precision, for it amplifies small numbers."""
    spread, directions = torch.linalg.eigh(covariance.double())
    scale = (spread.clamp(min=0) + RIDGE * spread.mean()).rsqrt()
    return (directions * scale @ directions.T).to(covariance.dtype)
