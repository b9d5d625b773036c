"""The training pictures of a task whose labels may be seen, seed by seed, without those that cannot be decoded."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from openjepa.core.errors import BadInput
from openjepa.data.crops.evaluation import Preparation
from openjepa.evaluation.feature_cache import Extractor
from openjepa.evaluation.label_draws import Plan
from openjepa.evaluation.tasks.task import Labelled, Task
from openjepa.runs.scores import PIXELS


@dataclass(frozen=True)
class Drawn:
    task: Task
    plan: Plan
    extractor: Extractor
    preparation: Preparation

    @cached_property
    def needed(self) -> Tensor:
        """Rows of the training part whose features are wanted, sorted: all if they are there anyway, else those with a label."""
        if self.plan.rows is not None and self.extractor.is_known(self.task.train, self.preparation):
            return torch.arange(len(self.task.train.labels))
        return self.plan.needed(self.task.train)

    @cached_property
    def train(self) -> Labelled:
        return self.task.train.take(self.needed)

    @cached_property
    def rows(self) -> list[tuple[int, Tensor]]:
        """(seed, rows of `train` with a label that this seed sees)."""
        is_sound = self.are_sound(self.train)
        drawn = []
        for number, seed in enumerate(self.plan.seeds):
            rows = self.needed if self.plan.rows is None else self.plan.rows[number]
            places = torch.searchsorted(self.needed, rows)
            drawn.append((seed, places[is_sound[places]]))
            self._check_classes(drawn[-1][1])
        return drawn

    def _check_classes(self, rows: Tensor) -> None:
        missing = self.task.num_classes - len(self.train.labels[rows].unique())
        if missing:
            raise BadInput(
                f"no labelled picture of {missing} classes of {self.task.name} can be decoded; mend them (openjepa data "
                "check lists broken ones), or use more labels"
            )

    def are_sound(self, part: Labelled) -> Tensor:
        """[S] bool: False where a picture is broken."""
        return self.extractor.features(PIXELS, part, self.preparation)[1]

    @property
    def num_labels(self) -> int:
        """That the first seed sees."""
        return len(self.rows[0][1])

    @property
    def num_train(self) -> int:
        """Training pictures, without those that turned out to be broken."""
        return len(self.task.train.labels) - int((~self.are_sound(self.train)).sum())
