"""Does it learn what we care about? Every so often, quick probes on a small labelled slice of a task.

The encoder never learns from the labels. Nothing here moves a random generator that training uses: a run with this monitor
has the same weights, bit for bit, as one without.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import torch
from pydantic import AfterValidator, Field
from torch import Tensor, nn

from openjepa.core.contracts import View, monitors, probes
from openjepa.core.duration import Duration
from openjepa.core.errors import BadInput
from openjepa.core.numbers import DurationField, Positive
from openjepa.core.types import Features
from openjepa.data.batches.build import open_images
from openjepa.data.crops.crop import Cropped
from openjepa.evaluation import encoders, features
from openjepa.evaluation.tasks.lookup import find
from openjepa.evaluation.tasks.task import open_task
from openjepa.machine import distributed
from openjepa.nn import wrappers

ENCODER = "encoder"


def _known_task(spec: str) -> str:
    """Checks the task before the first step: a misspelt name or path must not end the run in the middle."""
    definition, path = find(spec)
    if path is not None and not definition.is_embedded and not Path(path).expanduser().exists():
        raise BadInput(f'no folder or file "{path}" for the task {spec}')
    return spec


def _known_probe(name: str) -> str:
    probes[name]  # raises, with a hint
    return name


@dataclass(frozen=True)
class Slice:
    """Cropped images of one part of the task, held for the whole run."""

    batches: tuple[Cropped, ...]
    labels: Tensor  # [S]

    def features(self, encoder: nn.Module) -> Features:
        extracted = features.of_crops(self.batches, {ENCODER: encoder}, num_rows=len(self.labels))[ENCODER]
        vectors = extracted.layers[:, -encoders.width(encoder, extracted.layers) :]
        return Features(vectors[extracted.is_valid], self.labels[extracted.is_valid])


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
        """Decodes the slices before the run begins, so that errors in them appear then."""
        if distributed.is_main():
            self._slices(encoder)

    def _scores(self, encoder: nn.Module) -> list[tuple[str, float]]:
        with torch.random.fork_rng(devices=[]):
            train, test = (part.features(encoder) for part in self._slices(encoder))
            return [(f"probe/{name}", probes[name]().fit(train).score(test)["accuracy"]) for name in self.probes]

    def _slices(self, encoder: nn.Module) -> tuple[Slice, Slice]:
        size = wrappers.attribute(encoder, "image_size")
        if not isinstance(size, tuple):
            raise BadInput("the monitor probe needs an encoder with an image size; switch it off: monitors.probe=off")
        return _slices(self.task, size, self.num_train, self.num_test)


@lru_cache(maxsize=1)
def _slices(name: str, image_size: tuple[int, int], num_train: int, num_test: int) -> tuple[Slice, Slice]:
    """Decoded at the first call and held for the rest of the run."""
    task = open_task(name, image_size=image_size, num_train=num_train, num_test=num_test)
    crops = (task.definition.evaluation_crop(image_size),)
    train, test = (
        Slice(tuple(features.crops(open_images(part.source, crops), part.index)), part.labels)
        for part in (task.train, task.test)
    )
    return train, test
