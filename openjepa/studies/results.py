"""The results of a study so far, one row for each arm, read from the run folders alone."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from openjepa.core import settings
from openjepa.runs import metrics, provenance
from openjepa.runs.directory import RunFolder
from openjepa.runs.scores import PATCHES, PIXELS, RANDOM, TRAINED, Interval, Score, accuracy_text, gain_text, read
from openjepa.studies.folder import StudyFolder
from openjepa.studies.study import Arm, Study
from openjepa.training import verdict

CURVES = ("probe/logistic", "probe/knn")  # of the online probe; the page shows the first that a run has
Curve = tuple[list[float], list[float]]  # minutes, accuracies


@dataclass(frozen=True)
class Judged:
    """The accuracies of one arm with one probe on one task, over its seeds."""

    task: str
    probe: str
    by_seed: dict[int, float]
    interval: Interval | None  # covers the 95 % intervals (over test images and label draws) of all seeds
    random: float  # the same encoder with random weights
    pixels: float
    patches: float | None = None  # if they were requested

    @property
    def mean(self) -> float:
        return statistics.mean(self.by_seed.values())

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds."""
        return statistics.stdev(self.by_seed.values()) if len(self.by_seed) > 1 else None

    @property
    def text(self) -> str:
        return f"{accuracy_text(self.mean, self.interval)} ({gain_text(self.mean - self.random)})"


@dataclass(frozen=True)
class Facts:
    """Of one finished run."""

    images: int  # seen
    rate: float  # images a second
    minutes: float
    memory_mib: float
    commit: str
    machine: str
    warning: str  # of the watch at the end; empty: all was well
    curve: Curve


@dataclass(frozen=True)
class Row:
    arm: Arm
    judged: tuple[Judged, ...]
    runs: dict[int, Facts]  # the finished ones, by seed

    def mean(self, fact: Callable[[Facts], float]) -> float:
        """Of a fact, over the runs."""
        return statistics.mean(fact(facts) for facts in self.runs.values())


def collect(study: Study, folder: StudyFolder) -> list[Row]:
    """A row for every arm, even without a finished run."""
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
    watch = verdict.judge(rows)
    return Facts(
        images=(record.steps or 0) * int(settings.read(run.config)["train"]["batch_size"]),
        rate=statistics.median(rates) if rates else 0.0,
        minutes=rows[-1]["wall"] / 60,
        memory_mib=float(record.peak_memory_mib or 0),
        commit=str(record.commit),
        machine=record.machine.processor,
        warning=str(watch) if watch.is_bad else "",
        curve=_curve(rows),
    )


def _judged(task: str, probe: str, scores: Mapping[int, list[Score]]) -> Judged | None:
    """`scores` by seed."""
    by_seed: dict[int, dict[str, Score]] = {}
    for seed, rows in scores.items():
        chosen = {row.representation: row for row in rows if (row.task, row.probe) == (task, probe)}
        if chosen:
            by_seed[seed] = chosen
    if not by_seed:
        return None
    patches = [rows[PATCHES].accuracy for rows in by_seed.values() if PATCHES in rows]
    limits = [rows[TRAINED].interval for rows in by_seed.values()]
    known = [interval for interval in limits if interval is not None]
    return Judged(
        task=task,
        probe=probe,
        by_seed={seed: rows[TRAINED].accuracy for seed, rows in by_seed.items()},
        interval=(min(low for low, _ in known), max(high for _, high in known)) if known else None,
        random=statistics.mean(rows[RANDOM].accuracy for rows in by_seed.values()),
        pixels=statistics.mean(rows[PIXELS].accuracy for rows in by_seed.values()),
        patches=statistics.mean(patches) if patches else None,
    )


def _curve(rows: list[dict[str, Any]]) -> Curve:
    name = next((name for name in CURVES if any(name in row for row in rows)), "")
    points = [(row["wall"] / 60, row[name]) for row in rows if name in row]
    return [minutes for minutes, _ in points], [accuracy for _, accuracy in points]
