"""From guesses to scores: the metric, its interval over test pictures and seeds, and the gain over random weights."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

import openjepa
from openjepa.app.labelling import Plan
from openjepa.app.probing import Outcome
from openjepa.app.score import RANDOM, TRAINED, Score
from openjepa.probes import bootstrap
from openjepa.runs import provenance
from openjepa.tasks.opening import Task


def assemble(
    task: Task,
    plan: Plan,
    probe: str,
    outcomes: Mapping[str, Outcome],
    *,
    weights: Mapping[str, str],
    about: Mapping[str, Any],
) -> list[Score]:
    """One score a representation; `about` are the fields of Score that all of them share."""
    points = {name: worth(outcome, task.definition.metric) for name, outcome in outcomes.items()}
    made = {"date": provenance.now(), "version": openjepa.__version__, "commit": provenance.commit()}
    scores = []
    for name, outcome in outcomes.items():
        gain = points[TRAINED] - points[RANDOM] if name == TRAINED else None
        shared = {**about, "protocol": {**about["protocol"], "chosen": list(outcome.chosen)}}
        scores.append(
            Score(
                task=task.name,
                probe=probe,
                representation=name,
                accuracy=points[name].mean().item(),
                interval=bootstrap.interval(points[name]),
                chance=_chance(task),
                spread=points[name].mean(dim=1).std().item() if len(outcome.seeds) > 1 else None,
                gain=None if gain is None else gain.mean().item(),
                gain_interval=None if gain is None else bootstrap.interval(gain),
                metric=task.definition.metric,
                balanced_accuracy=worth(outcome, "balanced accuracy").mean().item(),
                labels=plan.text,
                num_labels=plan.num_labels(task.train),
                num_train=len(task.train.labels),
                num_test=len(outcome.labels),
                num_classes=task.num_classes,
                seeds=outcome.seeds,
                weights=weights[name],
                seconds=outcome.seconds,
                made=made,
                **shared,
            )
        )
    return scores


def worth(outcome: Outcome, metric: str) -> Tensor:
    """-> [R, S]: what each guess adds to the metric, which is their mean."""
    is_right = (outcome.guesses == outcome.labels).float()
    if metric == "accuracy":
        return is_right
    sizes = outcome.labels.bincount().float()
    num_classes = int((sizes > 0).sum())
    return is_right * (len(outcome.labels) / (num_classes * sizes))[outcome.labels]


def _chance(task: Task) -> float:
    if task.definition.metric != "accuracy":
        return 1 / len(task.test.labels.unique())
    commonest = task.train.labels.mode().values
    return torch.eq(task.test.labels, commonest).float().mean().item()
