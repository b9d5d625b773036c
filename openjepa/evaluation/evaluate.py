"""`openjepa evaluate`: task by task, probe by probe, on the baselines and on the encoder itself."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import openjepa
from openjepa.core.contracts import HasLayers, probes
from openjepa.core.errors import BadInput
from openjepa.evaluation import bootstrap, encoders, label_draws, leaks, patch_baseline
from openjepa.evaluation.candidate import Candidate, open_candidate
from openjepa.evaluation.feature_cache import Extractor
from openjepa.evaluation.probes.baselines import RawPixels
from openjepa.evaluation.probing import Outcome, Probing
from openjepa.evaluation.request import FINETUNE, Request
from openjepa.evaluation.tasks import lookup
from openjepa.evaluation.tasks.task import Task, open_task
from openjepa.machine import console
from openjepa.nn import wrappers
from openjepa.runs import provenance
from openjepa.runs.scores import PATCHES, PIXELS, RANDOM, TRAINED, Score, file_of, read, store


def evaluate(
    encoder_or_run: str | Path | nn.Module,
    task: str | Sequence[str],
    *,
    request: Request | None = None,
    random: nn.Module | None = None,
    **options: Any,
) -> list[Score]:
    """Scores of a run, a checkpoint, or any module that maps images [B, 3, h, w] to [B, N, D] or [B, D].

    `task` is a name such as "scenes-count" or "cifar10:DIR", a labelled folder, a list of these, or "all" in the folder
    `data`. `options` are the fields of `Request`, which lists their names and types: probe="knn", labels="1%", draws=3.
    `random` is the baseline for a module that cannot draw new weights by itself. A module sees images normalised with
    ImageNet's mean and deviation. The scores of a run are saved in RUN/evals.

    >>> import openjepa
    >>> from torch import nn
    >>> encoder = nn.Sequential(nn.AvgPool2d(8), nn.Flatten())
    >>> scores = openjepa.evaluate(
    ...     encoder, "scenes-colour", probe="knn", image_size=32, num_train=40, num_test=20, uses_cache=False
    ... )
    >>> [score.representation for score in scores]
    ['pixels', 'random encoder', 'trained']
    """
    request = (request or Request()).changed(options)
    request.check([*probes.names(), FINETUNE])
    size = request.image_size
    candidate = open_candidate(encoder_or_run, which=request.encoder, image_size=size, random=random)
    root = lookup.data_root(None if request.data is None else Path(request.data))
    size, num_train, num_test = candidate.image_size, request.num_train, request.num_test
    opened = [
        open_task(name, image_size=size, root=root, num_train=num_train, num_test=num_test)
        for name in lookup.names([task] if isinstance(task, str) else task, root)
    ]
    return Evaluation(candidate, request).run(opened)


@dataclass(frozen=True)
class Evaluation:
    candidate: Candidate
    request: Request

    def run(self, tasks: Sequence[Task]) -> list[Score]:
        """Saves the scores after every task: a failure in a later one loses nothing."""
        probings = deque(self._probing(task) for task in tasks)  # errors in the request come before any work
        self._check(tasks)
        scores = []
        while probings:
            new = self._scores(probings.popleft())  # a finished task frees its images
            self._save(new)
            scores += new
            self.extractor.clear()
        return scores

    def _probing(self, task: Task) -> Probing:
        plan = label_draws.plan(task, self.request.labels, self.request.draws)
        tuned = self.candidate.tuned
        return Probing(task=task, plan=plan, extractor=self.extractor, request=self.request, tuned=tuned)

    def _check(self, tasks: Sequence[Task]) -> None:
        if self.request.features == "last4" and not isinstance(wrappers.unwrapped(self.candidate.encoder), HasLayers):
            name = type(self.candidate.encoder).__name__
            raise BadInput(f"the encoder {name} has no blocks that can be read one by one; use features=last")
        if self.candidate.folder is not None:
            for task in tasks:
                read(file_of(self.candidate.folder, task.name))  # fail now if a file is damaged, not after the work

    def _scores(self, probing: Probing) -> list[Score]:
        """One for every probe and representation; that of the encoder with its gain over random weights."""
        weights = self._weights(probing)
        shared, metric = self._shared(probing), probing.task.definition.metric
        scores = []
        for probe in probing.names:
            outcomes = {name: probing.outcome(probe, name) for name in weights}
            points = {name: contributions(outcome, metric) for name, outcome in outcomes.items()}
            gain = points[TRAINED] - points[RANDOM]  # pair by pair, on the same images and labels
            gains = {"gain": gain.mean().item(), "gain_interval": bootstrap.interval(gain)}
            for name, outcome in outcomes.items():
                about = {**shared, "probe": probe, "features": probing.blocks_of(probe), "weights": weights[name]}
                scores.append(_score(name, outcome, points[name], {**about, **(gains if name == TRAINED else {})}))
        return scores

    def _weights(self, probing: Probing) -> dict[str, str]:
        """sha256 by representation, the encoder last. Learns the patch dictionary of the task, if requested."""
        if PATCHES not in self.request.baselines:
            return self.weights
        dictionary = patch_baseline.learned(probing.task.train, probing.evaluation_crop, self.extractor)
        self.extractor.put(PATCHES, dictionary)
        baselines = {PIXELS: "", RANDOM: self.weights[RANDOM], PATCHES: encoders.weights_hash(dictionary)}
        return {**baselines, TRAINED: self.weights[TRAINED]}

    def _shared(self, probing: Probing) -> dict[str, Any]:
        """The fields that all scores of a task share."""
        task = probing.task
        counts = leaks.count(probing, self.seen) if self.request.checks_leaks else leaks.Leaks()
        return {
            "task": task.name,
            "metric": task.definition.metric,
            "chance": _chance(task),
            "labels": probing.plan.text,
            "num_labels": probing.label_draws.num_labels,
            "num_train": probing.label_draws.num_train,
            "num_classes": task.num_classes,
            "encoder": self.candidate.which,
            "data": {"train": task.train.source.fingerprint(), "test": task.test.source.fingerprint()},
            "leaks": counts.as_dict(),
            "made": {"date": provenance.now(), "version": openjepa.__version__, "commit": provenance.commit()},
        }

    def _save(self, scores: Sequence[Score]) -> None:
        if self.candidate.folder is None:
            return
        try:
            store(self.candidate.folder, scores)
        except OSError as error:  # a full or read-only disk: the caller still gets the scores
            reason = error.strerror or error
            console.notice(f"warning: the scores cannot be saved in {self.candidate.folder.evals}: {reason}")

    @cached_property
    def extractor(self) -> Extractor:
        networks = {PIXELS: RawPixels(), RANDOM: self.candidate.random, TRAINED: self.candidate.encoder}
        return Extractor(networks=networks, image_size=self.candidate.image_size, uses_cache=self.request.uses_cache)

    @cached_property
    def seen(self) -> leaks.Seen:
        return leaks.seen_by(self.candidate, uses_cache=self.request.uses_cache)

    @cached_property
    def weights(self) -> dict[str, str]:
        """sha256 by representation."""
        networks = {RANDOM: self.candidate.random, TRAINED: self.candidate.encoder}
        return {PIXELS: "", **{name: encoders.weights_hash(network) for name, network in networks.items()}}


def contributions(outcome: Outcome, metric: str) -> Tensor:
    """-> [R, S]: what each prediction adds to the metric, which is their mean."""
    is_right = (outcome.guesses == outcome.labels).float()
    if metric == "accuracy":
        return is_right
    sizes = outcome.labels.bincount().float()
    num_classes = int((sizes > 0).sum())
    return is_right * (len(outcome.labels) / (num_classes * sizes))[outcome.labels]


def _score(name: str, outcome: Outcome, points: Tensor, shared: Mapping[str, Any]) -> Score:
    return Score(
        representation=name,
        accuracy=points.mean().item(),
        interval=bootstrap.interval(points),
        spread=points.mean(dim=1).std().item() if len(outcome.seeds) > 1 else None,
        balanced_accuracy=contributions(outcome, "balanced accuracy").mean().item(),
        num_test=len(outcome.labels),
        seeds=outcome.seeds,
        protocol=outcome.protocol,
        seconds=outcome.seconds,
        **shared,
    )


def _chance(task: Task) -> float:
    if task.definition.metric != "accuracy":
        return 1 / len(task.test.labels.unique())
    most_common = task.train.labels.mode().values
    return torch.eq(task.test.labels, most_common).float().mean().item()
