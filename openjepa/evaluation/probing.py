"""Probes on one task: for every seed fitted on the labels of that seed, then applied to the test images."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from openjepa.core import schema
from openjepa.core.contracts import probes
from openjepa.core.errors import BadInput
from openjepa.core.types import Features
from openjepa.data.batches.build import open_images
from openjepa.data.batches.images import Images
from openjepa.data.crops.evaluation import EvaluationCrop
from openjepa.data.subset import subset
from openjepa.evaluation import patch_baseline, probe_cache
from openjepa.evaluation.feature_cache import WORKERS, Extractor, open_crops
from openjepa.evaluation.label_draws import LabelDraws, LabelPlan
from openjepa.evaluation.probe_cache import Prediction
from openjepa.evaluation.probes.baselines import RANDOM_SEED
from openjepa.evaluation.probes.finetune import Finetune
from openjepa.evaluation.request import FINETUNE, LINEAR, Request
from openjepa.evaluation.tasks.task import Labelled, Task
from openjepa.machine import console
from openjepa.runs.scores import PATCHES, PIXELS, TRAINED

LOGISTIC = "logistic"
FINETUNE_BASELINE = LOGISTIC  # the probe for representations that have no weights to tune
# Of random crops, raw pixels and patches would fill the memory and teach a linear head no more than of the fixed crop.
WITHOUT_WEIGHTS = (PIXELS, PATCHES)
# For logistic regression; with 512 of its 3,200 directions a patch dictionary reaches 64 % on CIFAR-10 instead of 74 % (ridge).
PATCHES_OPTIONS = {"every_direction": True}


def options_of(name: str, settings: Any) -> dict[str, Any]:
    """Every option of a probe; builds the probe once to check them."""
    if not isinstance(settings, Mapping):
        raise BadInput(f'the settings of {name} are "{settings}"; expected options, such as {name}.OPTION=VALUE')
    if "seed" in settings:
        raise BadInput(f"{name}.seed cannot be set: seeds are 0, 1, 2 …; choose how many with draws")
    part = Finetune if name == FINETUNE else probes[name]
    values = schema.resolve(part, settings, where=name)
    part(**values)
    return values


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The predictions of one probe on one representation, for every seed."""

    guesses: Tensor  # [R, S] classes of the valid test images
    labels: Tensor  # [S]
    seeds: tuple[int, ...]
    protocol: dict[str, Any]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Probing:
    task: Task
    plan: LabelPlan
    extractor: Extractor
    request: Request
    tuned: nn.Module | None = None  # what fine-tuning starts from, if it is not the encoder itself

    def __post_init__(self) -> None:
        for name in {*self.names, *self.request.probe_options}:
            self._options(name)

    @property
    def names(self) -> tuple[str, ...]:
        return self.request.probes or self.task.definition.probes

    def outcome(self, name: str, representation: str) -> Outcome:
        """Features are extracted before the clock starts."""
        fitted, labels = self._fitted(name, representation), self.label_draws.valid_test.labels
        if fitted != FINETUNE:
            train, test = self._features(name, representation, self.label_draws.train), self._test(name, representation)
        console.notice(f"{self.task.name}: {name} on {representation} …")
        predictions = []
        for seed, rows in self._draws(name):
            if fitted == FINETUNE:
                predictions.append(self._finetuned(representation, seed, rows))
            else:
                predictions.append(self._fit_and_predict(fitted, representation, seed, train.rows(rows), test))
        return Outcome(
            guesses=torch.stack([one.guesses for one in predictions]),
            labels=labels,
            seeds=tuple(seed for seed, _ in self._draws(name)),
            protocol={**self._protocol(fitted, representation), "chosen": [one.chosen for one in predictions]},
            seconds=sum(one.seconds for one in predictions),
        )

    def _fit_and_predict(
        self, name: str, representation: str, seed: int, train: Features, test: Features
    ) -> Prediction:
        """Predictions of baselines come from the disk cache, if they are there."""
        options = self._options(name, representation)
        key = None
        if representation != TRAINED and self.extractor.uses_cache:
            key = probe_cache.key(probes[name], f"{name} {seed} {schema.plain(options)}", train, test)
            stored = probe_cache.load(key)
            if stored is not None:
                return stored
        probe = probes[name](**{**options, "seed": seed} if "seed" in options else options)
        began = time.perf_counter()
        guesses = probe.fit(train).predict(test)
        prediction = Prediction(guesses=guesses, chosen=probe.chosen, seconds=time.perf_counter() - began)
        if key is not None:
            probe_cache.save(key, prediction)
        return prediction

    def _protocol(self, name: str, representation: str) -> dict[str, Any]:
        """What was done, in words and numbers."""
        definition, options = self.task.definition, self._options(name, representation)
        options.pop("seed", None)
        return {
            "about": definition.about,
            "source": definition.source,
            "label": definition.label,
            "split": self.task.split,
            "pictures": self.evaluation_crop.describe(),
            "probe": name,
            "views": self.request.views if name == LINEAR and representation not in WITHOUT_WEIGHTS else 0,
            "options": schema.plain(options),
            "random_encoder_seed": RANDOM_SEED,
            **({"patches": asdict(patch_baseline.SETTINGS)} if representation == PATCHES else {}),
        }

    def blocks_of(self, name: str) -> str:
        """Which blocks of the encoder a probe sees."""
        return {LINEAR: "best of last and last4", FINETUNE: "all weights"}.get(name, self.request.features)

    @cached_property
    def evaluation_crop(self) -> EvaluationCrop:
        return self.task.definition.evaluation_crop(self.extractor.image_size)

    @cached_property
    def label_draws(self) -> LabelDraws:
        uses_features = any(name != FINETUNE for name in self.names)
        return LabelDraws(
            task=self.task,
            plan=self.plan,
            extractor=self.extractor,
            crop=self.evaluation_crop,
            uses_features=uses_features,
        )

    def _draws(self, name: str) -> list[tuple[int, Tensor]]:
        """(seed, rows of `label_draws.train` with a label). Only the first if nothing about it is random."""
        is_repeated = self.plan.is_random or "seed" in self._options(name)
        return self.label_draws.rows[: None if is_repeated else 1]

    def _test(self, name: str, representation: str) -> Features:
        features = self._features(name, representation, self.task.test)
        is_valid = self.label_draws.are_valid(self.task.test)
        return features if is_valid.all() else features.rows(is_valid.nonzero().squeeze(1))

    def _features(self, name: str, representation: str, part: Labelled) -> Features:
        has_views = name == LINEAR and part is self.label_draws.train and representation not in WITHOUT_WEIGHTS
        num_views = self.request.views if has_views else 0
        is_alone = not self.label_draws.uses_features  # only fine-tuning was requested: extract raw pixels alone
        features = self.extractor.features(
            representation, part, self.evaluation_crop, num_views=num_views, is_alone=is_alone
        )
        if self.request.features == "last4" and name != LINEAR and features.layers is not None:
            return Features(features.layers, features.labels)
        return features

    def _fitted(self, name: str, representation: str) -> str:
        """The probe that is fitted for the probe `name`."""
        return FINETUNE_BASELINE if name == FINETUNE and representation in WITHOUT_WEIGHTS else name

    def _options(self, name: str, representation: str = TRAINED) -> dict[str, Any]:
        published = self.task.definition.linear if name == LINEAR else {}
        if name == LOGISTIC and representation == PATCHES:
            published = PATCHES_OPTIONS
        settings = self.request.probe_options.get(name, {})
        return options_of(name, {**published, **settings} if isinstance(settings, Mapping) else settings)

    @cached_property
    def _labelled_rows(self) -> Tensor:
        """Rows of `label_draws.train` that any seed learns from, sorted."""
        return torch.cat([rows for _, rows in self.label_draws.rows]).unique()

    @cached_property
    def _tuning_images(self) -> Images:
        """Random crops of the images at `_labelled_rows`, opened once for all seeds and representations."""
        part = self.label_draws.train.take(self._labelled_rows)
        crops = (self.evaluation_crop.random(),)
        source = subset(part.source, part.index)
        return open_images(source, crops, cache="if it fits", num_workers=WORKERS, track=console.track)

    def _finetuned(self, representation: str, seed: int, rows: Tensor) -> Prediction:
        images, test = self._tuning_images, self.label_draws.valid_test  # opened before the clock starts
        began = time.perf_counter()
        tuned = Finetune(**{**self._options(FINETUNE), "seed": seed})
        network = self.extractor.networks[representation]
        if representation == TRAINED and self.tuned is not None:
            network = self.tuned
        index, labels = torch.searchsorted(self._labelled_rows, rows), self.label_draws.train.labels[rows]
        tuned.fit(network, images, index, labels, console.track)
        guesses = tuned.predict(open_crops(test, self.evaluation_crop), test.index)
        return Prediction(guesses=guesses, chosen=tuned.chosen, seconds=time.perf_counter() - began)
