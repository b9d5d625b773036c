"""Muon (Jordan et al. 2024): the momentum of each weight matrix, made orthogonal, is its update; AdamW for everything else.

All directions of an update then have about the same length, so rare directions are learned as fast as common ones.
Scaled as in Liu et al. 2025: an update has the size that AdamW's would have, so that AdamW's rates and decay carry over.
torch has an optimiser of this name too. It takes one matrix at a time, always in bfloat16, which kills the process on some CPUs.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from openjepa.machine import distributed

MOMENTUM = 0.95
ITERATIONS = 5
# An odd polynomial of degree 5 that takes singular values from (0, 1] to about 1 in five iterations (Jordan et al.).
POLYNOMIAL = (3.4445, -4.7750, 2.0315)
SCALE = 0.2  # the usual root mean square of AdamW's updates (Liu et al.)


class Muon(torch.optim.AdamW):
    """Groups with `matrices` N > 0 hold weights of N matrices each, one below the other; AdamW updates the others."""

    def __init__(self, groups: list[dict[str, Any]], *, betas: tuple[float, float], precision: torch.dtype) -> None:
        super().__init__(groups, betas=betas, fused=True)
        self.precision = precision

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # nobody gives a closure
        """One update of all parameters that have a gradient."""
        everything = self.param_groups
        for group in everything:
            if group["matrices"]:
                self._update_matrices(group)
        self.param_groups = [group for group in everything if not group["matrices"]]
        try:
            super().step()
        finally:
            self.param_groups = everything

    def _update_matrices(self, group: dict[str, Any]) -> None:
        weights = [weight for weight in group["params"] if weight.grad is not None]
        pieces = [piece for weight in weights for piece in self._pieces(weight, group["matrices"])]
        for indices in _equal_shapes([update for _, update in pieces]):
            stack = torch.stack([pieces[index][1] for index in indices])  # [n, short, long]
            orthogonal = _shared_over_processes(stack.to(self.precision))
            step_size = -group["lr"] * SCALE * stack.shape[2] ** 0.5
            for index, update in zip(indices, orthogonal, strict=True):
                weight = pieces[index][0]
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.add_(update if weight.shape == update.shape else update.T, alpha=step_size)

    def _pieces(self, weight: nn.Parameter, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """(view of a matrix, its direction before it is made orthogonal, with the shorter side first)."""
        assert weight.grad is not None
        state = self.state[weight]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(weight)
            state["step"] = torch.zeros(())  # not used, but AdamW's load_state_dict looks for it
        average = state["momentum"].lerp_(weight.grad, 1 - MOMENTUM)
        direction = weight.grad.lerp(average, MOMENTUM)  # Nesterov: looks one step ahead
        for part, piece in zip(weight.chunk(number), direction.chunk(number), strict=True):
            yield part, piece if piece.shape[0] <= piece.shape[1] else piece.T


def _equal_shapes(matrices: list[Tensor]) -> list[list[int]]:
    """Indices of matrices of one shape, together: one batched product is faster than many."""
    shapes: dict[torch.Size, list[int]] = {}
    for index, matrix in enumerate(matrices):
        shapes.setdefault(matrix.shape, []).append(index)
    return list(shapes.values())


def _shared_over_processes(stack: Tensor) -> Tensor:
    """[n, short, long] -> the same, orthogonal, in float32; each process works on its share."""
    share = -(-len(stack) // distributed.world_size())
    first = distributed.rank() * share
    mine = orthogonalise(stack[first : first + share]).float()
    if distributed.world_size() == 1:
        return mine
    padded = torch.cat([mine, mine.new_zeros(share - len(mine), *stack.shape[1:])])
    return distributed.concatenate(padded)[: len(stack)]


def orthogonalise(matrices: Tensor) -> Tensor:
    """[n, short, long] -> about U Vᵀ of each matrix U S Vᵀ, by Newton-Schulz iterations: products only, no decomposition.

    >>> import torch
    >>> from openjepa.training.muon import orthogonalise
    >>> torch.manual_seed(0)
    <torch._C.Generator ...>
    >>> values = torch.linalg.svdvals(orthogonalise(torch.randn(3, 4, 8)))
    >>> bool((values > 0.6).all() and (values < 1.3).all())
    True
    """
    a, b, c = POLYNOMIAL
    x = matrices / (matrices.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT  # [n, short, short]
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def matrix_groups(method: nn.Module) -> list[dict[str, Any]]:
    """The trained two-dimensional weights inside transformer blocks; a `qkv` weight holds three matrices, others one."""
    groups: dict[int, list[nn.Parameter]] = {3: [], 1: []}
    for name, weight in method.named_parameters():
        words = name.split(".")
        if weight.requires_grad and weight.ndim == 2 and "blocks" in words:
            groups[3 if words[-2] == "qkv" else 1].append(weight)
    return [
        {"params": weights, "is_decayed": True, "matrices": number} for number, weights in groups.items() if weights
    ]


def flops(method: nn.Module) -> float:
    """Operations of the matrix products of one update."""
    total = 0.0
    for group in matrix_groups(method):
        for weight in group["params"]:
            short, long = sorted((weight.shape[0] // group["matrices"], weight.shape[1]))
            total += group["matrices"] * ITERATIONS * (4 * short**2 * long + 2 * short**3)
    return total
