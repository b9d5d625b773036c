"""The scores of a run and of its baselines, as a table and in a few words."""

import shlex
from html import escape

from openjepa.report import captions
from openjepa.report.page import Section, paragraph, table
from openjepa.report.record import Record
from openjepa.runs.scores import NONE, PIXELS, RANDOM, TRAINED, Score, gain_text, percent

Row = dict[str, Score]  # representation -> its score
NAMES = (PIXELS, RANDOM, TRAINED)


def section(record: Record) -> Section:
    rows = _by_task(record)
    if not rows:
        text = f"Not evaluated yet. Run <code>{escape(_evaluation(record))}</code>."
        return Section("scores", "Scores", paragraph(text))
    head = ["task", "probe", "labels", "chance, %", *(f"{name}, %" for name in NAMES), f"{TRAINED} − random"]
    body = [_cells(task, probe, labels, row) for (task, probe, labels, _), row in rows.items()]
    shown = table([escape(cell) for cell in head], body, "scores")
    return Section("scores", "Scores", paragraph(captions.SCORES) + shown + _notes(record))


def _by_task(record: Record) -> dict[tuple[str, str, str, str], Row]:
    """(task, probe, labels, features) -> representation -> score."""
    rows: dict[tuple[str, str, str, str], Row] = {}
    for score in record.scores:
        key = (score.task, score.probe, score.labels, score.features)
        rows.setdefault(key, {})[score.representation] = score
    return rows


def _cells(task: str, probe: str, labels: str, row: Row) -> list[str]:
    best = max(score.accuracy for score in row.values())
    any_score = next(iter(row.values()))
    number = f" ({any_score.num_labels:,})" if any_score.num_labels else ""
    cells = [escape(task), escape(probe), escape(labels + number), percent(any_score.chance)]
    for name in NAMES:
        shown = row[name].text if name in row else NONE
        cells.append(f"<b>{shown}</b>" if name in row and row[name].accuracy == best else shown)
    return [*cells, _difference(row)]


def _difference(row: Row) -> str:
    if not {TRAINED, RANDOM} <= row.keys():
        return NONE
    gain = row[TRAINED].accuracy - row[RANDOM].accuracy
    text = gain_text(gain, row[TRAINED].gain_interval).replace("-", "−")
    return f'<span class="{"up" if gain > 0 else "down"}">{text}</span>'


def _notes(record: Record) -> str:
    """What each task is, how many images it has, and whether training saw some of its test images."""
    notes = []
    for task in dict.fromkeys(score.task for score in record.scores):
        score = next(score for score in record.scores if score.task == task)
        if not score.num_test:
            continue
        about = score.protocol.get("about", "")
        sizes = f"{score.num_train:,} training and {score.num_test:,} test images"
        notes.append(f"<b>{escape(task)}</b>: {escape(about)}{'; ' if about else ''}{sizes}.")
        for where in ("training", "pretraining"):
            if score.leaks.get(where):
                notes.append(f"Beware: {score.leaks[where]:,} test images occur in the {where} data.")
    return paragraph(" ".join(notes), "note") if notes else ""


def tile(record: Record) -> tuple[str, str, str]:
    """In how many cases training helped; not the best of them, which would promise too much."""
    rows = [row for row in _by_task(record).values() if {TRAINED, RANDOM} <= row.keys()]
    if not rows:
        return "Scores", "none yet", _evaluation(record)
    better = sum(row[TRAINED].accuracy > row[RANDOM].accuracy for row in rows)
    return "Scores", f"{better} of {len(rows)}", "above the same encoder with random weights"


def _evaluation(record: Record) -> str:
    return f"openjepa evaluate {shlex.quote(str(record.folder.path))} --task scenes-count"
