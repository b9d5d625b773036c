"""Multinomial logistic regression with L2, on standardised features; a part of the training set chooses the strength.

Solved by L-BFGS on the whole set: convex, no learning rate, deterministic. The solver uses whitened coordinates, in which no
direction is much steeper than another: the minimum is the same, and takes fewer steps. One rotation serves all strengths.
"""

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from openjepa.core import seeding
from openjepa.core.contracts import Probe, probes
from openjepa.core.numbers import Above, Positive
from openjepa.core.types import Features
from openjepa.data import splits

STRENGTHS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # of the penalty, beside the mean loss per image
DEFAULT_STRENGTH = 1e-2  # if there are too few labels to choose
VALIDATION_SHARE = 0.1
CURVATURE = 0.1  # p·(1 − p) for a class that is one of ten
MANY_CHANNELS = 2  # times as many as samples: rotating into the few directions that samples span is far cheaper
# Raw pixels and the last four blocks of large encoders: only their leading directions, which hold nearly all of the variance
# (98.4 % for the 3,072 pixels of CIFAR-10) and cost a fraction of the time. No block of a published encoder is that wide.
WIDEST, MOST_DIRECTIONS = 2048, 512


@probes.register("logistic")
@dataclass(kw_only=True)
class Logistic(Probe):
    """Logistic regression that chooses its own strength.

    >>> import torch
    >>> from openjepa.core.types import Features
    >>> from openjepa.evaluation.probes.logistic import Logistic
    >>> labels = torch.arange(40) % 2
    >>> train = Features(torch.randn(40, 8) + 9 * labels[:, None], labels)
    >>> Logistic().fit(train).score(train)["accuracy"]
    1.0
    """

    strengths: Annotated[tuple[Above, ...], Field(min_length=1)] = STRENGTHS
    max_iterations: Positive = 100
    every_direction: bool = False  # also of features that are wider than WIDEST
    _mean: Tensor = field(default_factory=lambda: torch.empty(0), init=False, repr=False)
    _std: Tensor = field(default_factory=lambda: torch.empty(0), init=False, repr=False)
    _rotation: Tensor | None = field(default=None, init=False, repr=False)  # [D, R]
    _weight: Tensor = field(default_factory=lambda: torch.empty(0), init=False, repr=False)  # [classes, D + 1]
    strength: float = field(default=0.0, init=False)

    def fit(self, train: Features) -> Self:
        std, self._mean = torch.std_mean(train.vectors, dim=0)
        self._std = std.clamp(min=1e-6 * max(std.max().item(), 1e-6))  # a constant channel must not divide by zero
        self._rotation = None
        if train.vectors.shape[1] > MANY_CHANNELS * len(train.labels):
            self._rotation = spanned(self._prepared(train.vectors))
        elif train.vectors.shape[1] > WIDEST and not self.every_direction:
            self._rotation = leading_directions(self._prepared(train.vectors), MOST_DIRECTIONS)
        x = self._prepared(train.vectors)
        spread, directions = principal_axes(x)
        x = x @ directions
        self.strength, start = self._choose(x, spread, train.labels)
        weight = solve_along(x, spread, train.labels, self.strength, self.max_iterations, start=start)
        self._weight = _same_bias(weight, weight[:, :-1] @ directions.T)
        return self

    def predict(self, test: Features) -> Tensor:
        return _logits(self._prepared(test.vectors), self._weight).argmax(dim=1)

    @property
    def chosen(self) -> dict[str, Any]:
        directions = len(self._mean) if self._rotation is None else self._rotation.shape[1]
        return {"strength": self.strength, "directions": directions}

    def _prepared(self, vectors: Tensor) -> Tensor:
        """[S, D] -> [S, D]: standardised; or [S, R]: then rotated."""
        x = (vectors - self._mean) / self._std
        return x if self._rotation is None else x @ self._rotation

    def _choose(self, x: Tensor, spread: Tensor, labels: Tensor) -> tuple[float, Tensor | None]:
        """The strength with the best accuracy on a held-out tenth of the training set, and its weights to start from.

        Never looks at test data. Half the iterations: each strength starts where the last one ended.
        """
        used, held_out = splits.split(labels, VALIDATION_SHARE, seeding.generator(0, "logistic validation"))
        if len(self.strengths) == 1 or not len(held_out):  # one label per class leaves nothing to choose with
            return min(self.strengths, key=lambda strength: abs(math.log(strength / DEFAULT_STRENGTH))), None
        num_classes = int(labels.max()) + 1
        shown, weight = x[used], None
        scores, weights = {}, {}
        few = max(self.max_iterations // 2, 1)
        for strength in sorted(self.strengths, reverse=True):
            weight = solve_along(shown, spread, labels[used], strength, few, num_classes=num_classes, start=weight)
            scores[strength] = (_logits(x[held_out], weight).argmax(dim=1) == labels[held_out]).float().mean().item()
            weights[strength] = weight
        best = max(scores, key=lambda strength: (scores[strength], strength))
        return best, weights[best]


def solve(x: Tensor, labels: Tensor, strength: float, max_iterations: int) -> Tensor:
    """[S, D], [S] -> [classes, D + 1]: minimises mean cross-entropy + strength/2 · ‖weight‖²; the bias (last column) is free."""
    spread, directions = principal_axes(x)
    weight = solve_along(x @ directions, spread, labels, strength, max_iterations)
    return _same_bias(weight, weight[:, :-1] @ directions.T)


def principal_axes(x: Tensor) -> tuple[Tensor, Tensor]:
    """[S, D] -> [D], [D, D]: the spread along each axis, and the axes as columns. In double precision inside."""
    spread, directions = torch.linalg.eigh((x.T @ x).double() / len(x))
    return spread.clamp(min=0).float(), directions.float()


def solve_along(
    x: Tensor,
    spread: Tensor,
    labels: Tensor,
    strength: float,
    max_iterations: int,
    *,
    num_classes: int | None = None,
    start: Tensor | None = None,
) -> Tensor:
    """Like `solve`, for x [S, D] along its principal axes with about the given spread [D].

    A few directions hold most of the spread of an encoder's features: in plain coordinates L-BFGS had not converged after
    300 steps, in these after 50 it had (docs/log.md, 2026-11-16): scaled so that the loss is about as steep in every
    direction. The curvature is p·(1 − p) of the spread, about a tenth.
    """
    scale = (CURVATURE * spread + strength).rsqrt()  # [D]
    solution = torch.zeros(num_classes or int(labels.max()) + 1, x.shape[1] + 1)  # in scaled coordinates
    if start is not None:
        solution = _same_bias(start, start[:, :-1] / scale)
    solution.requires_grad_(True)
    optimizer = torch.optim.LBFGS(
        [solution], max_iter=max_iterations, tolerance_grad=1e-5, tolerance_change=1e-7, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:  # LBFGS needs one
        optimizer.zero_grad()
        weight = _same_bias(solution, solution[:, :-1] * scale)  # for x itself
        loss = F.cross_entropy(_logits(x, weight), labels) + strength / 2 * weight[:, :-1].square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return _same_bias(solution, solution[:, :-1] * scale).detach()


def _same_bias(weight: Tensor, columns: Tensor) -> Tensor:
    """[classes, D + 1], [classes, D] -> [classes, D + 1]: the bias (last column) of the first, the weights of the second."""
    return torch.cat([columns, weight[:, -1:]], dim=1)


def spanned(x: Tensor) -> Tensor:
    """[S, D] with S < D -> [D, R]: orthonormal directions that span all samples.

    The penalty keeps the weights within this span, so the rotation does not change the solution.
    """
    values, vectors = torch.linalg.eigh((x @ x.T).double())  # [S], [S, S]: cheap, S is small
    is_spanned = values > 1e-9 * values.max()
    return (x.T.double() @ (vectors[:, is_spanned] / values[is_spanned].sqrt())).float()


def leading_directions(x: Tensor, number: int) -> Tensor:
    """[S, D] -> [D, number]: orthonormal directions in which x varies most."""
    return torch.linalg.eigh(x.T @ x).eigenvectors[:, -number:]  # eigenvalues ascend


def _logits(x: Tensor, weight: Tensor) -> Tensor:
    # classes first: the gradient is then gᵀ·x, four times faster on a CPU than xᵀ·g (docs/log.md 2026-11-15)
    # contiguous: of a slice torch computes the slow one (5,000 × 3,200, forward and backward: 107 -> 28 ms)
    return F.linear(x, weight[:, :-1].contiguous(), weight[:, -1])
