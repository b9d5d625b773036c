"""From tokens to one vector per image."""

from torch import Tensor


def mean(tokens: Tensor, valid: Tensor | None = None) -> Tensor:
    """[B, N, D] -> [B, D], over the valid tokens only; I-JEPA has no class token, so the mean is its summary.

    >>> import torch
    >>> from openjepa.nn.pooling import mean
    >>> mean(torch.tensor([[[1.0], [3.0], [9.0]]]), valid=torch.tensor([[True, True, False]]))
    tensor([[2.]])
    """
    if valid is None:
        return tokens.mean(dim=1)
    weight = valid[..., None].to(tokens.dtype)  # [B, N, 1]
    return (tokens * weight).sum(dim=1) / weight.sum(dim=1)
