"""The results of a study as a table like the paper's: markdown for people, JSON for programs."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from openjepa.studies.results import Judged, Row
from openjepa.studies.study import Study, Terms, as_asked

FEATURES = {"last": "last block", "last4": "last four blocks"}
UNEQUAL = 1.1  # runs of so much more or less time than the others are named
NOTHING = "–"


def head(study: Study) -> list[str]:
    judged = [f"{_short(task, study.terms)}, {probe}" for task, probe in _columns(study)]
    return ["", *judged, *(["paper"] if study.published else []), "images", "images/s", "minutes", "MiB"]


def body(study: Study, rows: Sequence[Row]) -> list[tuple[str, list[list[str]]]]:
    """(heading, lines of cells): first the floors, without a heading, then each group of arms."""
    groups = [("", [_floor("raw pixels", "pixels", study, rows), _floor("random weights", "random", study, rows)])]
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
    found = [
        f"Accuracy in %, {seeds}; in [ ] a range that holds the 95 % intervals of all seeds; in ( ) the gain "
        f"over random weights of the same encoder. Probes see {study.terms.labels or 'all'} labels and the "
        f"{FEATURES[study.terms.features]}.",
        *_doubts(study, rows),
    ]
    return [*found, *([f"Paper: {study.published}. Context, not a comparison."] if study.published else [])]


def as_dict(study: Study, rows: Sequence[Row]) -> dict[str, Any]:
    return {"study": as_asked(study), "notes": notes(study, rows), "rows": [_row(row) for row in rows]}


def _row(row: Row) -> dict[str, Any]:
    judged = [{**asdict(one), "mean": one.mean, "spread": one.spread} for one in row.judged]
    return {**asdict(row), "judged": judged}


def _doubts(study: Study, rows: Sequence[Row]) -> list[str]:
    """What a reader should know before trusting a difference."""
    found = []
    missing = [row.arm.name for row in rows if len(row.runs) < len(study.terms.seeds)]
    if missing:
        found.append(f"Not all runs are finished: {', '.join(missing)}.")
    runs = [facts for row in rows for facts in row.runs.values()]
    for name, values in (("commits", {one.commit for one in runs}), ("machines", {one.machine for one in runs})):
        if len(values) > 1:
            found.append(f"Runs come from different {name}: {', '.join(sorted(values))}.")
    done = [row for row in rows if row.runs]
    usual = sorted(row.mean("minutes") for row in done)[len(done) // 2] if done else 0.0
    others = [row.arm.name for row in done if not usual / UNEQUAL <= row.mean("minutes") <= usual * UNEQUAL]
    if others and "minutes" in study.terms.budget:
        found.append(f"Not of equal length, see the column of minutes: {', '.join(others)}.")
    return found + [
        f"{row.arm.name}, seed {seed}: {facts.warning}."
        for row in rows
        for seed, facts in row.runs.items()
        if facts.warning
    ]


def _cells(study: Study, row: Row) -> list[str]:
    found = {(one.task, one.probe): one for one in row.judged}
    paper = [f"{row.arm.published:.1f}" if row.arm.published is not None else NOTHING] if study.published else []
    return [row.arm.name, *(_score(found.get(column)) for column in _columns(study)), *paper, *_costs(row)]


def _costs(row: Row) -> list[str]:
    if not row.runs:
        return [NOTHING] * 4
    costs = f"{row.mean('images'):,.0f}", f"{row.mean('rate'):,.0f}"
    return [*costs, f"{row.mean('minutes'):.1f}", f"{row.mean('memory_mib'):,.0f}"]


def _score(one: Judged | None) -> str:
    if one is None:
        return NOTHING
    low, high = one.interval
    gain = f"{100 * (one.mean - one.random):+.1f}"
    return f"{_percent(one.mean)} [{_percent(low)}, {_percent(high)}] ({gain})"


def _floor(name: str, attribute: str, study: Study, rows: Sequence[Row]) -> list[str]:
    """A range where it is not the same for all arms: encoders differ in size, or in what stands for an image."""
    cells = []
    for column in _columns(study):
        values = [getattr(one, attribute) for row in rows for one in row.judged if (one.task, one.probe) == column]
        texts = [_percent(min(values)), _percent(max(values))] if values else [NOTHING]
        cells.append(" to ".join(dict.fromkeys(texts)))
    return [name, *cells]


def _columns(study: Study) -> list[tuple[str, str]]:
    return [(task, probe) for task in study.terms.tasks for probe in study.terms.probes]


def _short(task: str, terms: Terms) -> str:
    """Without the path, unless two tasks would have one name."""
    names = [_last_part(other) for other in terms.tasks]
    return _last_part(task) if names.count(_last_part(task)) == 1 else task


def _last_part(task: str) -> str:
    """`cifar10:/long/way/to/file` -> cifar10, `folder:/long/way/to/cells` -> cells."""
    kind, _, path = task.partition(":")
    return Path(path or kind).name if kind == "folder" or not path else kind


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
