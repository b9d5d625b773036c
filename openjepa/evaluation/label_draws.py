"""Which labels a probe may see, for every seed: all of them, or small sets drawn again and again; never of broken images."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from openjepa.core.errors import BadInput
from openjepa.data.crops.evaluation import EvaluationCrop
from openjepa.evaluation.feature_cache import Extractor
from openjepa.evaluation.tasks import labels as budgets
from openjepa.evaluation.tasks.task import Labelled, Task
from openjepa.runs.scores import ALL_LABELS

DEFAULT_DRAWS = 3  # of a small random set; one draw alone may be off by several points


@dataclass(frozen=True, kw_only=True)
class LabelPlan:
    text: str  # all, 1%, 5/class, or the list's name
    seeds: tuple[int, ...]
    rows: tuple[Tensor, ...] | None = None  # [L] rows of the training part, for every seed; None: all of them
    is_random: bool = False  # another seed sees other labels

    def rows_to_extract(self, train: Labelled) -> Tensor:
        """-> sorted rows of `train` that any seed uses."""
        if self.rows is None:
            return torch.arange(len(train.labels))
        return torch.cat(self.rows).unique()


def plan(task: Task, labels: str | None, draws: int | None) -> LabelPlan:
    text = labels if labels is not None else _list_of(task)
    if text is None:
        return LabelPlan(text=ALL_LABELS, seeds=tuple(range(draws or 1)))
    budget = budgets.parse(text)
    seeds = tuple(range(draws or (DEFAULT_DRAWS if budget.is_random else 1)))
    rows = tuple(budgets.draw(budget, task.train, seed) for seed in seeds)
    return LabelPlan(text=budget.text, seeds=seeds, rows=rows, is_random=budget.is_random)


def _list_of(task: Task) -> str | None:
    """The list that belongs to a task of few labels."""
    if not task.definition.labels:
        return None
    folder = Path(task.path or ".").expanduser()
    for name in task.definition.labels:
        if (folder / name).is_file():
            return str(folder / name)
    raise BadInput(
        f"the task {task.name} needs the list of its labelled images; put {task.definition.labels[0]} (SimCLR and MSN "
        f"publish it) into {folder}, or give it with --labels FILE, or draw one with --labels 1%"
    )


@dataclass(frozen=True, kw_only=True)
class LabelDraws:
    """The training images of a task whose labels may be seen, seed by seed, without broken images."""

    task: Task
    plan: LabelPlan
    extractor: Extractor
    crop: EvaluationCrop
    uses_features: bool = True  # of encoders; False: fine-tuning alone, which compares itself with raw pixels

    @cached_property
    def rows_to_extract(self) -> Tensor:
        """Rows of the training part to extract, sorted: all if their features are cached anyway, else those with a label."""
        if self.plan.rows is not None and self.extractor.is_known(self.task.train, self.crop):
            return torch.arange(len(self.task.train.labels))
        return self.plan.rows_to_extract(self.task.train)

    @cached_property
    def train(self) -> Labelled:
        return self.task.train.take(self.rows_to_extract)

    @cached_property
    def valid_test(self) -> Labelled:
        """The test images that can be decoded."""
        test = self.task.test
        rows = self.are_valid(test).nonzero().squeeze(1)
        if not len(rows):
            raise BadInput(
                f"none of the {len(test.labels)} test images of {self.task.name} can be decoded; list them with "
                "openjepa data check"
            )
        return test.take(rows)

    @cached_property
    def rows(self) -> list[tuple[int, Tensor]]:
        """(seed, rows of `train` with a label that this seed sees)."""
        is_valid = self.are_valid(self.train)
        draws = []
        for number, seed in enumerate(self.plan.seeds):
            rows = self.rows_to_extract if self.plan.rows is None else self.plan.rows[number]
            positions = torch.searchsorted(self.rows_to_extract, rows)
            draws.append((seed, positions[is_valid[positions]]))
            self._check_classes(draws[-1][1])
        return draws

    def _check_classes(self, rows: Tensor) -> None:
        num_classes = self.task.num_classes
        missing = num_classes - len(self.train.labels[rows].unique())
        if missing:
            raise BadInput(
                f"{missing} of {num_classes} classes of {self.task.name} have no labelled image that can be decoded; "
                "fix the broken files (openjepa data check lists them), or use more labels"
            )

    def are_valid(self, part: Labelled) -> Tensor:
        """[S] bool: False where an image is broken."""
        return self.extractor.are_valid(part, self.crop, is_alone=not self.uses_features)

    @property
    def num_labels(self) -> int:
        """That the first seed sees."""
        return len(self.rows[0][1])

    @property
    def num_train(self) -> int:
        """Training images, without broken ones."""
        return len(self.task.train.labels) - int((~self.are_valid(self.train)).sum())
