"""The work of an evaluation: task by task, probe by probe, on raw pixels, on random weights and on the encoder itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from openjepa.core.errors import BadInput
from openjepa.evaluation import encoders, label_draws, leaks
from openjepa.evaluation.candidate import Subject
from openjepa.evaluation.feature_cache import Extractor
from openjepa.evaluation.features import RawPixels
from openjepa.evaluation.probing import Blocks, Probing
from openjepa.evaluation.scoring import assemble
from openjepa.evaluation.tasks.task import Task
from openjepa.machine import console
from openjepa.runs.scores import PIXELS, RANDOM, TRAINED, Score, file_of, read, store


@dataclass(frozen=True)
class Wanted:
    """What a user asked for besides the encoder and the tasks."""

    probes: tuple[str, ...] | None = None  # None: those of the task
    labels: str | None = None  # 1%, 5/class, a list file; None: all, or the list that belongs to the task
    draws: int | None = None  # number of seeds; None: 3 when labels are drawn, else 1
    features: Blocks = "last"  # what k-NN and logistic regression see; `linear` tries both
    views: int = 0  # random crops for the linear probe to train on instead of the fixed one
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # options by probe
    checks_leaks: bool = True
    uses_cache: bool = True


@dataclass(frozen=True)
class Evaluation:
    subject: Subject
    wanted: Wanted

    @cached_property
    def extractor(self) -> Extractor:
        networks = {PIXELS: RawPixels(), RANDOM: self.subject.random, TRAINED: self.subject.encoder}
        return Extractor(networks, self.subject.image_size, self.wanted.uses_cache)

    def run(self, tasks: Sequence[Task]) -> list[Score]:
        """Scores are kept after every task: a later one that fails takes nothing with it."""
        probings = [self._probing(task) for task in tasks]  # what cannot be done is said before anything is
        self._check(tasks)
        scores = []
        for probing in probings:
            found = self._scores(probing)
            self._keep(found)
            scores += found
            self.extractor.clear()
        return scores

    def _check(self, tasks: Sequence[Task]) -> None:
        if self.wanted.features == "last4" and not isinstance(self.subject.encoder, encoders.Layered):
            name = type(self.subject.encoder).__name__
            raise BadInput(f"the encoder {name} has no blocks that can be read one by one; use features=last")
        if self.subject.folder is not None:
            for task in tasks:
                read(file_of(self.subject.folder, task.name))  # a damaged file would cost the scores at the end

    def _probing(self, task: Task) -> Probing:
        plan = label_draws.plan(task, self.wanted.labels, self.wanted.draws)
        names = self.wanted.probes or task.definition.probes
        chosen, views = self.wanted.features, self.wanted.views
        return Probing(task, plan, self.extractor, names, chosen, views, self.wanted.settings, self.subject.tuned)

    def _scores(self, probing: Probing) -> list[Score]:
        task = probing.task
        found = leaks.look(probing, self.seen) if self.wanted.checks_leaks else leaks.Leaks()
        about = {
            "encoder": self.subject.which,
            "data": {"train": task.train.source.fingerprint(), "test": task.test.source.fingerprint()},
            "leaks": found.as_dict(),
        }
        scores = []
        for name in probing.names:
            outcomes = {representation: probing.outcome(name, representation) for representation in self.weights}
            scores += assemble(probing, name, outcomes, weights=self.weights, about=about)
        return scores

    def _keep(self, scores: list[Score]) -> None:
        if self.subject.folder is None:
            return
        try:
            store(self.subject.folder, scores)
        except OSError as error:  # a full or read-only disk: better a table on the screen than nothing
            console.notice(
                f"warning: the scores cannot be kept in {self.subject.folder.evals}: {error.strerror or error}"
            )

    @cached_property
    def seen(self) -> leaks.Seen:
        return leaks.seen_by(self.subject, uses_cache=self.wanted.uses_cache)

    @cached_property
    def weights(self) -> dict[str, str]:
        """sha256 by representation."""
        return {
            PIXELS: "",
            RANDOM: encoders.weights_hash(self.subject.random),
            TRAINED: encoders.weights_hash(self.subject.encoder),
        }
