"""The results of a study as a table like the paper's: markdown for people, JSON for programs."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from openjepa.runs.scores import DISPLAY, NONE, PATCHES, PIXELS, RANDOM, percent
from openjepa.studies.results import Judged, Row
from openjepa.studies.study import Study, Terms

FEATURES = {"last": "last block", "last4": "last four blocks"}
UNEQUAL = 1.1  # the notes name arms that took this many times more or less time than the others


def head(study: Study) -> list[str]:
    judged = [f"{_short(task, study.terms)}, {probe}" for task, probe in _columns(study)]
    return ["", *judged, *(["paper"] if study.published else []), "images", "images/s", "minutes", "MiB"]


def body(study: Study, rows: Sequence[Row]) -> list[tuple[str, list[list[str]]]]:
    """(heading, lines of cells): first the baselines, without a heading, then each group of arms."""
    names = [PIXELS, RANDOM, *study.terms.baselines]
    groups = [("", [_baseline(name, study, rows) for name in names])]
    for group in dict.fromkeys(row.arm.group for row in rows):
        groups.append((group, [_cells(study, row) for row in rows if row.arm.group == group]))
    width = len(head(study))
    return [(group, [cells + [""] * (width - len(cells)) for cells in lines]) for group, lines in groups]


def markdown(study: Study, rows: Sequence[Row]) -> str:
    names = head(study)
    lines = [f"# {study.title}", "", _line(names), _line(["---"] * len(names))]
    for group, cells in body(study, rows):
        if group:
            lines.append(_line([f"*{group}*", *[""] * (len(names) - 1)]))
        lines += [_line(row) for row in cells]
    return "\n".join([*lines, "", *(f"{note}\n" for note in notes(study, rows))])


def notes(study: Study, rows: Sequence[Row]) -> list[str]:
    number = len(study.terms.seeds)
    seeds = f"the mean of {number} seeds" if number > 1 else f"seed {study.terms.seeds[0]}"
    meaning = (
        f"Accuracy in %, {seeds}; in [ ] a range that covers the 95 % intervals of all seeds; in ( ) the gain "
        f"over random weights of the same encoder. Probes see {study.terms.labels or 'all'} labels and the "
        f"{FEATURES[study.terms.features]}."
    )
    paper = [f"Paper: {study.published}. Context, not a comparison."] if study.published else []
    return [meaning, *_doubts(study, rows), *paper]


def as_dict(study: Study, rows: Sequence[Row]) -> dict[str, Any]:
    return {"study": study.as_dict(), "notes": notes(study, rows), "rows": [_row(row) for row in rows]}


def _row(row: Row) -> dict[str, Any]:
    judged = [{**asdict(one), "mean": one.mean, "spread": one.spread} for one in row.judged]
    return {**asdict(row), "judged": judged}


def _doubts(study: Study, rows: Sequence[Row]) -> list[str]:
    """What a reader should know before trusting a difference."""
    doubts = []
    missing = [row.arm.name for row in rows if len(row.runs) < len(study.terms.seeds)]
    if missing:
        doubts.append(f"Not all runs are finished: {', '.join(missing)}.")
    runs = [facts for row in rows for facts in row.runs.values()]
    for name, values in (("commits", {one.commit for one in runs}), ("machines", {one.machine for one in runs})):
        if len(values) > 1:
            doubts.append(f"Runs come from different {name}: {', '.join(sorted(values))}.")
    done = [row for row in rows if row.runs]
    usual = sorted(row.mean(lambda run: run.minutes) for row in done)[len(done) // 2] if done else 0.0
    others = [
        row.arm.name for row in done if not usual / UNEQUAL <= row.mean(lambda run: run.minutes) <= usual * UNEQUAL
    ]
    if others and "minutes" in study.terms.budget:
        doubts.append(f"Not of equal length, see the column minutes: {', '.join(others)}.")
    return doubts + [
        f"{row.arm.name}, seed {seed}: {facts.warning}."
        for row in rows
        for seed, facts in row.runs.items()
        if facts.warning
    ]


def _cells(study: Study, row: Row) -> list[str]:
    judged = {(one.task, one.probe): one.text for one in row.judged}
    paper = [f"{row.arm.published:.1f}" if row.arm.published is not None else NONE] if study.published else []
    return [row.arm.name, *(judged.get(column, NONE) for column in _columns(study)), *paper, *_costs(row)]


def _costs(row: Row) -> list[str]:
    if not row.runs:
        return [NONE] * 4
    costs = f"{row.mean(lambda run: run.images):,.0f}", f"{row.mean(lambda run: run.rate):,.0f}"
    return [*costs, f"{row.mean(lambda run: run.minutes):.1f}", f"{row.mean(lambda run: run.memory_mib):,.0f}"]


def _baseline(baseline: str, study: Study, rows: Sequence[Row]) -> list[str]:
    """A range if the arms differ: encoders may have different sizes or pool differently."""
    cells = []
    for column in _columns(study):
        judged = [one for row in rows for one in row.judged if (one.task, one.probe) == column]
        values = [value for one in judged if (value := _value(baseline, one)) is not None]
        texts = [percent(min(values)), percent(max(values))] if values else [NONE]
        cells.append(" to ".join(dict.fromkeys(texts)))
    return [DISPLAY[baseline], *cells]


def _value(baseline: str, one: Judged) -> float | None:
    return {PIXELS: one.pixels, RANDOM: one.random, PATCHES: one.patches}[baseline]


def _columns(study: Study) -> list[tuple[str, str]]:
    return [(task, probe) for task in study.terms.tasks for probe in study.terms.probes]


def _short(task: str, terms: Terms) -> str:
    """Without the path, unless two tasks would get the same name."""
    names = [_last_part(other) for other in terms.tasks]
    return _last_part(task) if names.count(_last_part(task)) == 1 else task


def _last_part(task: str) -> str:
    """`cifar10:/long/way/to/file` -> cifar10, `folder:/long/way/to/cells` -> cells."""
    kind, _, path = task.partition(":")
    return Path(path or kind).name if kind == "folder" or not path else kind


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
