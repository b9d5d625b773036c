"""The exponential moving average that makes one network follow another."""

import torch
from torch import nn


@torch.no_grad()
def follow(target: nn.Module, source: nn.Module, momentum: float) -> None:
    """target ← momentum · target + (1 − momentum) · source, over all parameters, in place.

    >>> from torch import nn
    >>> from openjepa.nn.ema import follow
    >>> teacher, student = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.constant_(teacher.weight, 1.0), nn.init.constant_(student.weight, 0.0)
    >>> follow(teacher, student, momentum=0.75)
    >>> teacher.weight.item()
    0.75
    """
    torch._foreach_lerp_(list(target.parameters()), list(source.parameters()), 1 - momentum)
