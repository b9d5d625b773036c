"""From tokens to one vector an image."""

from torch import Tensor


def mean(tokens: Tensor, valid: Tensor | None = None) -> Tensor:
    """[B, N, D] -> [B, D], over the valid tokens only; I-JEPA has no class token, so the mean is its summary."""
    if valid is None:
        return tokens.mean(dim=1)
    weight = valid[..., None].to(tokens.dtype)  # [B, N, 1]
    return (tokens * weight).sum(dim=1) / weight.sum(dim=1)
