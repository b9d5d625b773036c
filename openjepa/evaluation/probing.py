"""Probes on one task: fitted for every seed on the labels of that seed, then asked about the test pictures."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor, nn

from openjepa.core import schema
from openjepa.core.contracts import Probe, probes
from openjepa.core.errors import BadInput
from openjepa.core.types import Features
from openjepa.data.batches.build import open_images
from openjepa.data.crops.evaluation import EvaluationCrop
from openjepa.evaluation import probe_cache
from openjepa.evaluation.candidate import RANDOM_SEED
from openjepa.evaluation.feature_cache import WORKERS, Extractor, open_crops
from openjepa.evaluation.label_draws import LabelDraws, Plan
from openjepa.evaluation.probe_cache import Answer
from openjepa.evaluation.probes.finetune import Finetune
from openjepa.evaluation.tasks.task import Labelled, Task
from openjepa.machine import console
from openjepa.runs.scores import PIXELS, TRAINED

Blocks = Literal["last", "last4"]  # of the encoder: the last one, or the last four side by side
FINETUNE = "finetune"
FINETUNE_FLOOR = "logistic"  # pixels have nothing to tune; what they are worth is said by this probe
LINEAR = "linear"  # chooses between the last block and the last four by itself, and can learn from random crops


def resolved(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Every option of a probe, checked by building it once."""
    if not isinstance(settings, Mapping):
        raise BadInput(f'the settings of {name} are "{settings}"; expected options, such as {name}.OPTION=VALUE')
    if "seed" in settings:
        raise BadInput(f"{name}.seed cannot be set: seeds are 0, 1, 2 …; say how many with draws")
    part = Finetune if name == FINETUNE else probes[name]
    values = schema.resolve(part, settings, where=name)
    part(**values)
    return values


@dataclass(frozen=True)
class Outcome:
    """What one probe said of one representation, for every seed."""

    guesses: Tensor  # [R, S] classes of the sound test pictures
    labels: Tensor  # [S]
    seeds: tuple[int, ...]
    protocol: dict[str, Any]
    seconds: float


@dataclass(frozen=True)
class Probing:
    task: Task
    plan: Plan
    extractor: Extractor
    names: tuple[str, ...]
    features: Blocks = "last"
    num_views: int = 0
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tuned: nn.Module | None = None  # what fine-tuning starts from, if it is not the encoder itself

    def __post_init__(self) -> None:
        for name in {*self.names, *self.settings}:
            self._options(name)

    def outcome(self, name: str, representation: str) -> Outcome:
        """Features are extracted before the clock starts."""
        is_tuned = self._fitted(name, representation) == FINETUNE
        if not is_tuned:
            train, test = self._features(name, representation, self.drawn.train), self._test(name, representation)
        console.notice(f"{self.task.name}: {name} on {representation} …")
        answers = []
        for seed, rows in self._draws(name):
            if is_tuned:
                answers.append(self._finetuned(representation, seed, rows))
            else:
                answers.append(self._asked(name, representation, seed, train.rows(rows), test))
        seeds = tuple(seed for seed, _ in self._draws(name))
        protocol = {**self._protocol(name, representation), "chosen": [answer.chosen for answer in answers]}
        guesses = torch.stack([answer.guesses for answer in answers])
        return Outcome(guesses, self._valid_test.labels, seeds, protocol, sum(answer.seconds for answer in answers))

    def _asked(self, name: str, representation: str, seed: int, train: Features, test: Features) -> Answer:
        fitted = self._fitted(name, representation)
        probe = self._probe(fitted, seed)
        if representation == TRAINED or not self.extractor.uses_cache:
            return probe_cache.asked(probe, train, test)
        return probe_cache.asked_once(probe, f"{fitted} {seed} {schema.plain(self._options(fitted))}", train, test)

    def _protocol(self, name: str, representation: str) -> dict[str, Any]:
        """What was done, in words and numbers."""
        name = self._fitted(name, representation)
        definition, given = self.task.definition, self._options(name)
        given.pop("seed", None)
        return {
            "about": definition.about,
            "source": definition.source,
            "label": definition.label,
            "split": self.task.split,
            "pictures": self.preparation.describe(),
            "probe": name,
            "views": self.num_views if name == LINEAR and representation != PIXELS else 0,
            "options": schema.plain(given),
            "random_encoder_seed": RANDOM_SEED,
        }

    def seen_by(self, name: str) -> str:
        """Which blocks of the encoder a probe sees."""
        return {LINEAR: "best of last and last4", FINETUNE: "all weights"}.get(name, self.features)

    @cached_property
    def preparation(self) -> EvaluationCrop:
        return self.task.definition.preparation(self.extractor.image_size)

    @cached_property
    def drawn(self) -> LabelDraws:
        uses_features = any(name != FINETUNE for name in self.names)
        return LabelDraws(self.task, self.plan, self.extractor, self.preparation, uses_features)

    @cached_property
    def _valid_test(self) -> Labelled:
        """The test images that can be decoded."""
        return self.task.test.take(self.drawn.are_valid(self.task.test).nonzero().squeeze(1))

    def _draws(self, name: str) -> list[tuple[int, Tensor]]:
        """(seed, rows of `drawn.train` with a label). Once, if nothing about it is random."""
        is_repeated = self.plan.is_random or "seed" in self._options(name)
        return self.drawn.rows[: None if is_repeated else 1]

    def _test(self, name: str, representation: str) -> Features:
        found = self._features(name, representation, self.task.test)
        is_valid = self.drawn.are_valid(self.task.test)
        return found if is_valid.all() else found.rows(is_valid.nonzero().squeeze(1))

    def _features(self, name: str, representation: str, part: Labelled) -> Features:
        # Raw pixels of random crops would fill the memory and teach a linear head nothing that the fixed crop does not.
        has_views = name == LINEAR and part is self.drawn.train and representation != PIXELS
        num_views = self.num_views if has_views else 0
        is_alone = not self.drawn.uses_features  # pixels beside fine-tuning: nobody needs the encoders' features
        found, _ = self.extractor.features(
            representation, part, self.preparation, num_views=num_views, is_alone=is_alone
        )
        if self.features == "last4" and name != LINEAR and found.layers is not None:
            return Features(found.layers, found.labels)
        return found

    def _fitted(self, name: str, representation: str) -> str:
        """The probe that is fitted when `name` is asked for: pixels have nothing to tune."""
        return FINETUNE_FLOOR if name == FINETUNE and representation == PIXELS else name

    def _probe(self, name: str, seed: int) -> Probe:
        given = self._options(name)
        return probes[name](**{**given, "seed": seed} if "seed" in given else given)

    def _options(self, name: str) -> dict[str, Any]:
        published = self.task.definition.linear if name == LINEAR else {}
        given = self.settings.get(name, {})
        return resolved(name, {**published, **given} if isinstance(given, Mapping) else given)

    def _finetuned(self, representation: str, seed: int, rows: Tensor) -> Answer:
        began = time.perf_counter()
        tuned = Finetune(**{**self._options(FINETUNE), "seed": seed})
        part = self.drawn.train.take(rows)
        network = self.extractor.networks[representation]
        if representation == TRAINED and self.tuned is not None:
            network = self.tuned
        crops = (self.preparation.random(),)
        images = open_images(part.source, crops, cache="auto", num_workers=WORKERS, track=console.track)
        tuned.fit(network, images, part.index, part.labels, console.track)
        test = self._valid_test
        guesses = tuned.predict(open_crops(test, self.preparation), test.index)
        return Answer(guesses, tuned.chosen, time.perf_counter() - began)
