"""The grid of heads that the linear probe tries: the settings of one head, and training of the heads that share an input."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from openjepa.core.types import Features
from openjepa.evaluation.probes.linear.heads import Heads, cross_entropy
from openjepa.evaluation.probes.linear.stacked_optim import RULES, StackedOptimizer

Source = Literal["last", "last4"]
Norm = Literal["batch", "none"]
CHUNK = 4096  # samples at a time outside of training


@dataclass(frozen=True)
class Setting:
    """One head of the grid."""

    features: Source
    norm: Norm
    lr: float  # per 256 images
    weight_decay: float

    @property
    def input(self) -> tuple[Source, Norm]:
        """Heads with the same input can share a matrix product."""
        return self.features, self.norm


@dataclass(frozen=True)
class Score:
    """Of a head on held-out samples. A head whose numbers overflowed, now or in training, has no finite loss."""

    setting: Setting
    accuracy: float
    loss: float

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.loss)


class Stack:
    """Heads with one input and their optimiser. All start from the same weights [C, D]."""

    def __init__(self, settings: Sequence[Setting], start: Tensor, *, optimizer: str) -> None:
        self.settings = settings
        self.features = settings[0].features
        self.heads = Heads(start, len(settings), has_norm=settings[0].norm == "batch")
        self.optimizer = StackedOptimizer(
            RULES[optimizer],
            self.heads.parameters,
            lrs=[setting.lr for setting in settings],
            weight_decays=[setting.weight_decay for setting in settings],
        )
        self.num_steps = 0
        self.total_loss = torch.zeros(len(settings))  # over all steps: one that is not finite makes the sum not finite

    @property
    def is_finite(self) -> Tensor:
        """[H] bool: the loss was finite at every step."""
        return self.total_loss.isfinite()

    def step(self, x: Tensor, labels: Tensor, *, factor: float) -> None:
        """[B, D], [B]: one update of every head; `factor` multiplies the learning rates."""
        if self.heads.has_norm and len(x) < 2:  # a batch of one has no variance
            return
        self.num_steps += 1
        losses, gradients = self.heads.learn(x, labels)
        self.total_loss += losses
        self.optimizer.step(gradients, factor=factor)

    def validate(self, features: Features, rows: Tensor) -> list[Score]:
        """Every head on these samples."""
        correct, loss = torch.zeros(len(self.settings)), torch.zeros(len(self.settings))
        source = inputs(features)[self.features]
        for chunk in rows.split(CHUNK):
            labels = features.labels[chunk]
            logits = self.heads.logits(source[chunk])  # [Q, H, C]
            correct += (logits.argmax(dim=2) == labels.unsqueeze(1)).sum(dim=0)
            loss += len(chunk) * cross_entropy(logits, labels)[0]
        accuracies = [number / len(rows) for number in correct.tolist()]
        losses = (loss / len(rows)).masked_fill(~self.is_finite, math.inf).tolist()
        return [Score(*parts) for parts in zip(self.settings, accuracies, losses, strict=True)]

    def classes(self, features: Features) -> Tensor:
        """-> [S], the predictions of the first head."""
        chunks = inputs(features)[self.features].split(CHUNK)
        return torch.cat([self.heads.logits(chunk)[:, 0].argmax(dim=1) for chunk in chunks])


def inputs(features: Features, epoch: int | None = None) -> dict[Source, Tensor]:
    """The inputs of the heads, each [S, …]. Training passes its epoch and gets the random crops in turn, if there are any."""
    last, layers = features.vectors, features.layers
    if features.views and epoch is not None:
        view = features.views[epoch % len(features.views)]
        last, layers = view[:, -last.shape[1] :], None if layers is None else view
    return {"last": last} if layers is None else {"last": last, "last4": layers}
