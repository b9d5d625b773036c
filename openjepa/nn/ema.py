"""The exponential moving average that makes one network follow another."""

import torch
from torch import nn


@torch.no_grad()
def follow(target: nn.Module, source: nn.Module, momentum: float) -> None:
    """target ← momentum · target + (1 − momentum) · source, over all parameters, in place."""
    torch._foreach_lerp_(list(target.parameters()), list(source.parameters()), 1 - momentum)
