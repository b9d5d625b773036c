"""The page of a study: its table, accuracy against time, and its settings. One file that loads nothing."""

from collections.abc import Sequence

import yaml

from openjepa.report.figures import race
from openjepa.report.page import Cell, Fold, Page, Paragraph, Plot, Section, Table
from openjepa.report.page import render as render_page
from openjepa.studies import table as study_table
from openjepa.studies.results import Row
from openjepa.studies.study import Study


def render(study: Study, rows: Sequence[Row], *, command: str) -> str:
    planned, num_runs = len(study.cells()), sum(len(row.runs) for row in rows)
    state = f"{num_runs} of {planned} runs are finished." if num_runs < planned else f"{planned} runs."
    return render_page(
        Page(
            kind="OpenJEPA study",
            title=study.title,
            headline=[Paragraph(state)],
            sections=[_table(study, rows), *_race(rows), _settings(study)],
            command=command,
        )
    )


def _table(study: Study, rows: Sequence[Row]) -> Section:
    names = study_table.head(study)
    lines: list[list[str | Cell]] = []
    for group, cells in study_table.body(study, rows):
        if group:
            lines.append([Cell(group, style="group"), *[""] * (len(names) - 1)])
        lines += [list(row) for row in cells]
    notes = [Paragraph(note, "note") for note in study_table.notes(study, rows)]
    return Section("table", "Results", [Table(names, lines, "scores"), *notes])


def _race(rows: Sequence[Row]) -> list[Section]:
    by_arm = {row.arm.name: [facts.curve for facts in row.runs.values() if facts.curve[0]] for row in rows}
    curves = {name: seeds for name, seeds in by_arm.items() if seeds}
    if not curves:
        return []
    plot = Plot(race.figure(curves, "Accuracy against time"), "accuracy against minutes of training")
    return [Section("race", "Against time", [plot])]


def _settings(study: Study) -> Section:
    text = yaml.safe_dump(study.as_dict(), sort_keys=False, allow_unicode=True)
    return Section("settings", "Settings", [Fold("study.yaml", code=text)])
