"""Does it learn what we care about? Every so often, quick probes on a small labelled slice of a task.

Labels are looked at and never learned from. Nothing here moves a random generator that training uses: a run with this
monitor has the same weights, bit for bit, as one without.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import torch
from pydantic import AfterValidator, Field
from torch import nn

from openjepa.core.contracts import View, monitors, probes
from openjepa.core.duration import Duration
from openjepa.core.errors import BadInput
from openjepa.core.numbers import DurationField, Positive
from openjepa.core.types import Features
from openjepa.data.batches.from_arrays import Raw
from openjepa.data.crops.evaluation import Preparation
from openjepa.evaluation import encoders, features
from openjepa.evaluation.tasks.lookup import find
from openjepa.evaluation.tasks.task import Labelled, open_task
from openjepa.machine import distributed

ENCODER = "encoder"


def _known_task(spec: str) -> str:
    """A misspelt task or path is said before the first step, not in the middle of the run."""
    definition, path = find(spec)
    if path is not None and not definition.is_embedded and not Path(path).expanduser().exists():
        raise BadInput(f'no folder or file "{path}" for the task {spec}')
    return spec


def _known_probe(name: str) -> str:
    probes[name]  # raises, with a hint
    return name


@dataclass(frozen=True)
class Slice:
    """Decoded pictures of one part of the task, kept for the whole run."""

    raws: tuple[Raw, ...]
    part: Labelled

    def features(self, encoder: nn.Module, preparation: Preparation) -> Features:
        found = features.of_batches(
            self.raws,
            {ENCODER: encoder},
            preparation,
            num_rows=len(self.part.labels),
            num_pictures=len(self.part.source),
        )[ENCODER]
        vectors = found.layers[:, -encoders.width(encoder, found.layers) :]
        return Features(vectors[found.is_sound], self.part.labels[found.is_sound])


@monitors.register("probe")
@dataclass(frozen=True, kw_only=True)
class OnlineProbe:
    every: DurationField = Duration(10, "percent")
    task: Annotated[str, AfterValidator(_known_task)] = "scenes-count"
    probes: tuple[Annotated[str, AfterValidator(_known_probe)], ...] = ("knn", "logistic")
    num_train: Annotated[int, Field(ge=2)] = 2000
    num_test: Positive = 1000

    def __call__(self, view: View) -> Iterable[tuple[str, float]]:
        return self._scores(view.method.encoder) if distributed.is_main() else []

    def check(self, encoder: nn.Module) -> None:
        """Decodes the slices before the run begins, so that what is wrong with them is said then."""
        if distributed.is_main():
            self._opened(encoder)

    def _scores(self, encoder: nn.Module) -> list[tuple[str, float]]:
        with torch.random.fork_rng(devices=[]):
            preparation, *slices = self._opened(encoder)
            train, test = (part.features(encoder, preparation) for part in slices)
            return [(f"probe/{name}", probes[name]().fit(train).score(test)["accuracy"]) for name in self.probes]

    def _opened(self, encoder: nn.Module) -> tuple[Preparation, Slice, Slice]:
        size = getattr(encoder, "image_size", None)
        if not isinstance(size, tuple):
            raise BadInput("the monitor probe needs an encoder with an image size; switch it off: monitors.probe=off")
        return _opened(self.task, size, self.num_train, self.num_test)


@lru_cache(maxsize=1)
def _opened(task: str, image_size: tuple[int, int], num_train: int, num_test: int) -> tuple[Preparation, Slice, Slice]:
    """Decoded at the first call and kept for the rest of the run."""
    found = open_task(task, image_size=image_size, num_train=num_train, num_test=num_test)
    preparation = found.definition.preparation(image_size)
    return preparation, _decoded(found.train, preparation), _decoded(found.test, preparation)


def _decoded(part: Labelled, preparation: Preparation) -> Slice:
    pictures = preparation.pictures(part.source)
    chunks = [chunk.tolist() for chunk in part.index.split(features.BATCH_SIZE)]
    return Slice(tuple(pictures.batches(chunks)), part)
