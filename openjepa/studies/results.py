"""What a study has found so far: a row for each arm, from the run folders alone."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openjepa.core import settings
from openjepa.runs import metrics, provenance
from openjepa.runs.directory import RunFolder
from openjepa.runs.scores import PIXELS, RANDOM, TRAINED, read
from openjepa.studies.study import Arm, Study, StudyFolder
from openjepa.training import verdict

CURVES = ("probe/logistic", "probe/knn")  # of the online probe; the first that a run has is drawn
Curve = tuple[list[float], list[float]]  # minutes, accuracies


@dataclass(frozen=True)
class Judged:
    """One arm judged by one probe on one task, over its seeds, in shares of 1."""

    task: str
    probe: str
    by_seed: dict[int, float]
    interval: tuple[float, float]  # holds the 95 % intervals (over test pictures and label draws) of all seeds
    random: float  # the same encoder with random weights
    pixels: float

    @property
    def mean(self) -> float:
        return statistics.mean(self.by_seed.values())

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds."""
        return statistics.stdev(self.by_seed.values()) if len(self.by_seed) > 1 else None


@dataclass(frozen=True)
class Facts:
    """Of one finished run."""

    images: int  # seen
    rate: float  # images a second
    minutes: float
    memory_mib: float
    commit: str
    machine: str
    warning: str  # what the watch said at the end, if something was wrong
    curve: Curve


@dataclass(frozen=True)
class Row:
    arm: Arm
    judged: tuple[Judged, ...]
    runs: dict[int, Facts]  # the finished ones, by seed

    def mean(self, name: str) -> float:
        """Of a fact, over the runs."""
        return statistics.mean(getattr(facts, name) for facts in self.runs.values())


def collect(study: Study, folder: StudyFolder) -> list[Row]:
    """A row for every arm, also for one that has no finished run yet."""
    return [_row(study, folder, arm) for arm in study.arms]


def _row(study: Study, folder: StudyFolder, arm: Arm) -> Row:
    terms = study.terms
    runs = {seed: facts for seed in terms.seeds if (facts := _facts(folder.run(arm, seed))) is not None}
    scores = {seed: read(folder.scores(arm, seed)) for seed in runs}
    judged = [_judged(task, probe, scores) for task in terms.tasks for probe in terms.probes]
    return Row(arm, tuple(one for one in judged if one is not None), runs)


def _facts(run: RunFolder) -> Facts | None:
    rows = metrics.read(run.metrics)
    if provenance.status(run) != "finished" or not rows:
        return None
    record = provenance.read(run)
    rates = metrics.series(rows, "throughput/images_per_second")[1]
    found = verdict.judge(rows)
    return Facts(
        images=(record.steps or 0) * int(settings.read(run.config)["train"]["batch_size"]),
        rate=statistics.median(rates) if rates else 0.0,
        minutes=rows[-1]["wall"] / 60,
        memory_mib=float(record.peak_memory_mib or 0),
        commit=str(record.commit),
        machine=record.machine.processor,
        warning=str(found) if found.is_bad else "",
        curve=_curve(rows),
    )


def _judged(task: str, probe: str, scores: Mapping[int, list[dict[str, Any]]]) -> Judged | None:
    """`scores` by seed."""
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for seed, rows in scores.items():
        ours = {row["representation"]: row for row in rows if (row["task"], row["probe"]) == (task, probe)}
        if ours:
            found[seed] = ours
    if not found:
        return None
    trained = [rows[TRAINED] for rows in found.values()]
    return Judged(
        task,
        probe,
        by_seed={seed: rows[TRAINED]["accuracy"] for seed, rows in found.items()},
        interval=(min(row["interval"][0] for row in trained), max(row["interval"][1] for row in trained)),
        random=statistics.mean(rows[RANDOM]["accuracy"] for rows in found.values()),
        pixels=statistics.mean(rows[PIXELS]["accuracy"] for rows in found.values()),
    )


def _curve(rows: list[dict[str, Any]]) -> Curve:
    name = next((name for name in CURVES if any(name in row for row in rows)), "")
    points = [(row["wall"] / 60, row[name]) for row in rows if name in row]
    return [minutes for minutes, _ in points], [accuracy for _, accuracy in points]
