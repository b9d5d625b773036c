"""From guesses to scores: the metric, its interval over test pictures and seeds, and the gain over random weights."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import openjepa
from openjepa.evaluation import bootstrap
from openjepa.evaluation.probing import Outcome, Probing
from openjepa.evaluation.tasks.task import Task
from openjepa.runs import provenance
from openjepa.runs.scores import RANDOM, TRAINED, Score


def assemble(
    probing: Probing,
    probe: str,
    outcomes: Mapping[str, Outcome],
    *,
    weights: Mapping[str, str],
    about: Mapping[str, Any],
) -> list[Score]:
    """One score a representation; `about` are the fields of Score that all of them share."""
    task, metric = probing.task, probing.task.definition.metric
    shared = {
        "task": task.name,
        "probe": probe,
        "metric": metric,
        "chance": _chance(task),
        "labels": probing.plan.text,
        "num_labels": probing.drawn.num_labels,
        "num_train": probing.drawn.num_train,
        "num_classes": task.num_classes,
        "features": probing.seen_by(probe),
        "made": {"date": provenance.now(), "version": openjepa.__version__, "commit": provenance.commit()},
        **about,
    }
    points = {name: worth(outcome, metric) for name, outcome in outcomes.items()}
    scores = [_score(name, outcomes[name], points[name], {**shared, "weights": weights[name]}) for name in outcomes]
    gain = points[TRAINED] - points[RANDOM]  # pair by pair, on the same pictures and labels
    limits = bootstrap.interval(gain)
    return [
        replace(score, gain=gain.mean().item(), gain_interval=limits) if score.representation == TRAINED else score
        for score in scores
    ]


def _score(name: str, outcome: Outcome, points: Tensor, shared: Mapping[str, Any]) -> Score:
    return Score(
        representation=name,
        accuracy=points.mean().item(),
        interval=bootstrap.interval(points),
        spread=points.mean(dim=1).std().item() if len(outcome.seeds) > 1 else None,
        balanced_accuracy=worth(outcome, "balanced accuracy").mean().item(),
        num_test=len(outcome.labels),
        seeds=outcome.seeds,
        protocol=outcome.protocol,
        seconds=outcome.seconds,
        **shared,
    )


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
