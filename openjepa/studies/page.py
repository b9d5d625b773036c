"""The page of a study: its table, accuracy against time, and what was asked. One file, nothing is loaded."""

from collections.abc import Sequence
from html import escape

import yaml

from openjepa.report.figures import race
from openjepa.report.page import Section, figure_html, page, paragraph, table
from openjepa.studies import table as study_table
from openjepa.studies.results import Row
from openjepa.studies.study import Study


def render(study: Study, rows: Sequence[Row], *, command: str) -> str:
    sections = [_table(study, rows), *_race(rows), _question(study)]
    wanted, num_runs = len(study.cells()), sum(len(row.runs) for row in rows)
    state = f"{num_runs} of {wanted} runs are finished." if num_runs < wanted else f"{wanted} runs."
    return page(study.title, paragraph(state), sections, over="OpenJEPA study", command=command)


def _table(study: Study, rows: Sequence[Row]) -> Section:
    names = study_table.head(study)
    lines: list[list[str]] = []
    for group, cells in study_table.body(study, rows):
        if group:
            lines.append([f"<i>{escape(group)}</i>", *[""] * (len(names) - 1)])
        lines += [[escape(cell) for cell in row] for row in cells]
    notes = "".join(paragraph(escape(note), "note") for note in study_table.notes(study, rows))
    return Section("table", "Results", table([escape(name) for name in names], lines, "scores") + notes)


def _race(rows: Sequence[Row]) -> list[Section]:
    curves = {row.arm.name: [facts.curve for facts in row.runs.values() if facts.curve[0]] for row in rows}
    drawn = {name: found for name, found in curves.items() if found}
    if not drawn:
        return []
    figure = figure_html(race.figure(drawn, "Accuracy against time"), "accuracy against minutes of training")
    return [Section("race", "Against time", figure)]


def _question(study: Study) -> Section:
    text = yaml.safe_dump(study.as_dict(), sort_keys=False, allow_unicode=True)
    return Section(
        "question", "What was asked", f"<details><summary>study.yaml</summary><pre>{escape(text)}</pre></details>"
    )
