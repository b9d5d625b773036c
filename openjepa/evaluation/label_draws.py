"""Which labels a probe may see, for every seed: all of them, or small sets drawn again and again."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from openjepa.core.errors import BadInput
from openjepa.evaluation.tasks import labels as budgets
from openjepa.evaluation.tasks.task import Labelled, Task
from openjepa.runs.scores import ALL_LABELS

DEFAULT_DRAWS = 3  # of a small random set; one draw alone may be off by several points


@dataclass(frozen=True)
class Plan:
    text: str  # all, 1%, 5/class, or the list's name
    seeds: tuple[int, ...]
    rows: tuple[Tensor, ...] | None = None  # [L] rows of the training part, for every seed; None: all of them
    is_random: bool = False  # another seed sees other labels

    def needed(self, train: Labelled) -> Tensor:
        """-> sorted rows of `train` that any seed asks for."""
        if self.rows is None:
            return torch.arange(len(train.labels))
        return torch.cat(self.rows).unique()


def plan(task: Task, labels: str | None, draws: int | None) -> Plan:
    text = labels if labels is not None else _list_of(task)
    if text is None:
        return Plan(ALL_LABELS, tuple(range(draws or 1)))
    budget = budgets.parse(text)
    seeds = tuple(range(draws or (DEFAULT_DRAWS if budget.is_random else 1)))
    rows = tuple(budgets.draw(budget, task.train, seed) for seed in seeds)
    return Plan(budget.text, seeds, rows, budget.is_random)


def _list_of(task: Task) -> str | None:
    """The list that belongs to a task of few labels."""
    if not task.definition.labels:
        return None
    folder = Path(task.path or ".").expanduser()
    for name in task.definition.labels:
        if (folder / name).is_file():
            return str(folder / name)
    raise BadInput(
        f"the task {task.name} needs the list of its labelled pictures; put {task.definition.labels[0]} (SimCLR and MSN "
        f"publish it) into {folder}, or give it with --labels FILE, or draw one with --labels 1%"
    )
