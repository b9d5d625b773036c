"""The paper's linear probe: a grid of heads trained together on frozen features; the best one is the probe.

The grid is I-JEPA's as VISSL's configs have it: {last block, last four} × {batch norm, plain} × rates × weight decays.
The paper reports the head that is best on the validation set, which is its test set. Here a held-out tenth of the *training*
set chooses, and the best head is trained again on all of it.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby, product
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field
from torch import Tensor

from openjepa.core import schedule, seeding
from openjepa.core.contracts import Probe, probes
from openjepa.core.errors import OpenJepaError
from openjepa.core.numbers import Above, NotNegative, Positive, Share
from openjepa.core.types import Features
from openjepa.data import splits
from openjepa.evaluation.probes.linear.head_grid import Norm, Setting, Source, Stack, inputs

VALIDATION_SHARE = 0.1
IMAGES_PER_RATE = 256  # learning rates are for a batch of 256, and grow with the batch
WEIGHT_STD = 0.01


@probes.register("linear")
@dataclass(kw_only=True)
class Linear(Probe):
    """The best of a grid of linear heads.

    >>> import torch
    >>> from openjepa.core.types import Features
    >>> from openjepa.evaluation.probes.linear.linear import Linear
    >>> labels = torch.arange(40) % 2
    >>> train = Features(torch.randn(40, 8) + 3 * labels[:, None], labels)
    >>> Linear(epochs=2, min_steps=20).fit(train).predict(train).shape
    torch.Size([40])
    """

    optimizer: Literal["sgd", "lars"] = "sgd"
    epochs: Positive = 28
    batch_size: Positive = 256
    milestones: tuple[Positive, ...] = (8, 16, 24)  # epochs at which the rate falls to a tenth; empty: cosine
    final_ratio: Share = 0.01  # of cosine; VISSL's Clevr configs go from 0.01 to 0.0001
    learning_rates: Annotated[tuple[Above, ...], Field(min_length=1)] = (0.01, 0.1)  # per 256 images
    weight_decays: Annotated[tuple[NotNegative, ...], Field(min_length=1)] = (5e-4, 0.0)
    min_steps: Annotated[int, Field(ge=0)] = 1000  # a small set gets more epochs, and the schedule is stretched
    seed: int = 0
    _winner: Stack | None = field(default=None, init=False, repr=False)
    _num_epochs: int = field(default=0, init=False, repr=False)  # including the extra epochs of a small set
    _validation_accuracy: float | None = field(default=None, init=False, repr=False)

    @torch.no_grad()
    def fit(self, train: Features) -> Self:
        setting, self._validation_accuracy = self._choose(train)
        (winner,) = self._train([setting], train, torch.arange(len(train.labels)))
        if not winner.is_finite.all():
            raise self._diverged()
        self._winner = winner
        return self

    @torch.no_grad()
    def predict(self, test: Features) -> Tensor:
        assert self._winner is not None, "fit first"
        return self._winner.classes(test)

    @property
    def chosen(self) -> dict[str, Any]:
        if self._winner is None:
            return {}
        chosen = asdict(self._winner.settings[0]) | {"epochs": self._num_epochs, "steps": self._winner.num_steps}
        accuracy = self._validation_accuracy
        return chosen if accuracy is None else chosen | {"validation_accuracy": accuracy}

    def rate(self, progress: float) -> float:
        """The factor of the learning rates after this share of the training."""
        if self.milestones:
            return 0.1 ** sum(milestone / self.epochs <= progress for milestone in self.milestones)
        return schedule.cosine(progress, 1.0, self.final_ratio)

    def grid(self, train: Features) -> list[Setting]:
        """Heads of one input are adjacent; the first head is the default if nothing is held out to choose with."""
        has_variance = min(self.batch_size, len(train.labels)) > 1  # batch norm needs two samples in a batch
        norms: list[Norm] = ["batch", "none"] if has_variance else ["none"]
        choices = product(inputs(train), norms, self.learning_rates, self.weight_decays)
        return [Setting(*choice) for choice in choices]

    def _choose(self, train: Features) -> tuple[Setting, float | None]:
        """The head with the best accuracy on a held-out tenth of the training set, and that accuracy."""
        settings = self.grid(train)
        generator = seeding.generator(self.seed, "linear validation")
        used, held_out = splits.split(train.labels, VALIDATION_SHARE, generator)
        if len(settings) == 1 or not len(held_out):  # one label per class leaves nothing to choose with
            return settings[0], None
        stacks = self._train(settings, train, used)
        scores = [score for stack in stacks for score in stack.validate(train, held_out) if score.is_finite]
        if not scores:
            raise self._diverged()
        best = min(scores, key=lambda score: (-score.accuracy, score.loss))  # of equal heads, min takes the first
        return best.setting, best.accuracy

    def _train(self, settings: Sequence[Setting], train: Features, rows: Tensor) -> list[Stack]:
        """Heads with these settings, trained together on some of the samples."""
        stacks = [self._stack(list(heads), train) for _, heads in groupby(settings, key=lambda setting: setting.input)]
        names = {stack.features for stack in stacks}
        for x, labels, factor in self._batches(train, rows, names):
            for stack in stacks:
                stack.step(x[stack.features], labels, factor=factor)
        return stacks

    def _batches(
        self, train: Features, rows: Tensor, names: Collection[Source]
    ) -> Iterator[tuple[dict[Source, Tensor], Tensor, float]]:
        """The batches of all epochs: each input [B, …], labels [B], and the factor of the learning rates."""
        num_batches = math.ceil(len(rows) / self.batch_size)
        num_epochs = self._num_epochs = max(self.epochs, math.ceil(self.min_steps / num_batches))
        for epoch in range(num_epochs):
            sources = inputs(train, epoch)
            order = torch.randperm(len(rows), generator=seeding.generator(self.seed, "linear order", epoch))
            for step, batch in enumerate(rows[order].split(self.batch_size)):
                # By the option batch_size, even for a smaller set: the rates were published for it.
                factor = self.batch_size / IMAGES_PER_RATE * self.rate((epoch + step / num_batches) / num_epochs)
                yield {name: sources[name].index_select(0, batch) for name in names}, train.labels[batch], factor

    def _stack(self, settings: Sequence[Setting], train: Features) -> Stack:
        """Heads of the same width start from the same weights, in the grid and alone."""
        num_classes, width = int(train.labels.max()) + 1, inputs(train)[settings[0].features].shape[1]
        generator = seeding.generator(self.seed, "linear weights")
        start = WEIGHT_STD * torch.randn(num_classes, width, generator=generator)
        return Stack(settings, start, optimizer=self.optimizer)

    def _diverged(self) -> OpenJepaError:
        rates = ", ".join(f"{lr:g}" for lr in self.learning_rates)
        return OpenJepaError(
            f"the linear probe's loss did not stay finite (learning rates {rates}); "
            "use smaller ones, such as 0.01, and check that the features are finite"
        )
