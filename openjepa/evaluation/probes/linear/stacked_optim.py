"""SGD and LARS for stacked heads: the first axis of every tensor is the head, and each head has its own rate and decay.

torch.optim has one rate per tensor: each head would need its own tensors and several small operations.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

MOMENTUM = 0.9
TRUST = 0.001  # LARS's trust coefficient in VISSL's configs for I-JEPA
NOT_DECAYED = ("scale", "shift")  # VISSL spares batch norm; biases are decayed
ADAPTED = ("weight",)  # LARS leaves biases and batch norm alone

Rule = Callable[..., None]


class StackedOptimizer:
    """Changes `parameters` (name -> [H, …]) in place."""

    def __init__(
        self, rule: Rule, parameters: dict[str, Tensor], *, lrs: Sequence[float], weight_decays: Sequence[float]
    ) -> None:
        self.rule = rule
        self.parameters = parameters
        self.lr = torch.tensor(lrs)  # [H]
        self.weight_decay = torch.tensor(weight_decays)  # [H]
        self.velocities = {name: torch.zeros_like(value) for name, value in parameters.items()}

    def step(self, gradients: dict[str, Tensor], *, factor: float) -> None:
        """`factor` multiplies every learning rate: schedules are outside. Overwrites the gradients."""
        lr = factor * self.lr
        for name, value in self.parameters.items():
            decay = torch.zeros_like(lr) if name in NOT_DECAYED else self.weight_decay
            self.rule(
                value,
                gradients[name],
                self.velocities[name],
                lr=_along_heads(lr, value),
                weight_decay=_along_heads(decay, value),
                is_adapted=name in ADAPTED,
            )


def sgd(
    value: Tensor, gradient: Tensor, velocity: Tensor, *, lr: Tensor, weight_decay: Tensor, is_adapted: bool
) -> None:
    """Nesterov momentum as in torch.optim.SGD; nothing is adapted."""
    gradient.addcmul_(value, weight_decay)
    velocity.mul_(MOMENTUM).add_(gradient)
    value.addcmul_(gradient.add_(velocity, alpha=MOMENTUM), lr, value=-1)


def lars(
    value: Tensor, gradient: Tensor, velocity: Tensor, *, lr: Tensor, weight_decay: Tensor, is_adapted: bool
) -> None:
    """You et al. 2017: steps of the weights are in proportion to the weights' own size."""
    if is_adapted:
        lr = lr * trust_ratio(value, gradient, weight_decay)
    gradient.addcmul_(value, weight_decay)
    velocity.mul_(MOMENTUM).addcmul_(gradient, lr)
    value.sub_(velocity)


def trust_ratio(value: Tensor, gradient: Tensor, weight_decay: Tensor) -> Tensor:
    """[H, C, D] twice, [H, 1, 1] -> [H, 1, 1]; 1 where a norm is zero."""
    size = torch.linalg.vector_norm(value, dim=(1, 2), keepdim=True)
    slope = torch.linalg.vector_norm(gradient, dim=(1, 2), keepdim=True)
    return torch.where((size > 0) & (slope > 0), TRUST * size / (slope + weight_decay * size), 1.0)


def _along_heads(numbers: Tensor, value: Tensor) -> Tensor:
    """[H] -> [H, 1, …] with as many axes as `value`."""
    return numbers.unflatten(0, (-1, *[1] * (value.ndim - 1)))


RULES: dict[str, Rule] = {"sgd": sgd, "lars": lars}
