"""Patches by their tokens: for a predicted token, the real patches whose *target* token is nearest, by cosine.

Tokens are compared as they are. Subtracting the mean token of each position first does not work: an unsure predictor
predicts nearly the mean, and then gets a neighbour for its noise: bright objects at random (seen in 3 runs).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from openjepa.core.types import Masks
from openjepa.report.figures.predictions import BATCH, PredictiveModel


@dataclass(frozen=True)
class Pool:
    """Images in which patches are looked up."""

    images: Tensor  # [S, 3, h, w]
    tokens: Tensor  # [S·N, D]: the target of each patch, of unit length


@torch.no_grad()
def encode_pool(model: PredictiveModel, images: Tensor) -> Pool:
    """[S, 3, h, w]"""
    tokens = torch.cat([_all_targets(model, batch) for batch in images.split(BATCH)])  # [S, N, D]
    return Pool(images.cpu(), F.normalize(tokens.flatten(0, 1), dim=1))


def _all_targets(model: PredictiveModel, images: Tensor) -> Tensor:
    """-> [B, N, D]: the targets of one block that is the whole grid."""
    everything = torch.arange(model.grid.size, device=images.device).expand(len(images), 1, -1)  # [B, 1, N]
    nothing = everything[:, 0, :0]
    return model.targets(images, Masks(nothing, everything)).squeeze(1).cpu()


def on_grid(values: Tensor, masks: Masks, num_patches: int) -> Tensor:
    """[B, M, T, D] -> [B, N, D]: the value at each target patch, the mean where blocks overlap, nan elsewhere."""
    index = masks.targets.flatten(1)[..., None]  # [B, M·T, 1]
    total = values.new_zeros(len(values), num_patches, values.shape[3])
    total.scatter_add_(1, index.expand(-1, -1, values.shape[3]), values.flatten(1, 2))
    count = values.new_zeros(len(values), num_patches, 1)
    count.scatter_add_(1, index, torch.ones_like(index, dtype=values.dtype))
    return total / count


def nearest_patches(tokens: Tensor, pool: Pool, k: int) -> Tensor:
    """[B, N, D] -> [B, N, k]: indices into the pool's tokens, nearest first; -1 where a token is nan."""
    queries = F.normalize(tokens, dim=2)
    is_target = queries.isfinite().all(dim=2)  # [B, N]
    nearest = torch.full((*is_target.shape, k), -1)
    nearest[is_target] = (queries[is_target] @ pool.tokens.T).topk(k, dim=1).indices
    return nearest
