"""The scores of a run beside their floors, as a table and in a few words."""

import shlex
from html import escape
from typing import Any

from openjepa.report import captions
from openjepa.report.page import Section, paragraph, table
from openjepa.report.record import Record
from openjepa.runs.scores import ALL_LABELS, PIXELS, RANDOM, TRAINED

Row = dict[str, dict[str, Any]]  # representation -> its score
NAMES = (PIXELS, RANDOM, TRAINED)


def section(record: Record) -> Section:
    rows = _by_task(record)
    if not rows:
        text = f"Not evaluated yet. Run <code>{escape(_evaluation(record))}</code>."
        return Section("scores", "Scores", paragraph(text))
    head = ["task", "probe", "labels", "chance", *NAMES, f"{TRAINED} − random"]
    body = [_cells(task, probe, labels, row) for (task, probe, labels, _), row in rows.items()]
    shown = table([escape(cell) for cell in head], body, "scores")
    return Section("scores", "Scores", paragraph(captions.SCORES) + shown + _notes(record))


def _by_task(record: Record) -> dict[tuple[str, str, str, str], Row]:
    """(task, probe, labels, features) -> representation -> score."""
    rows: dict[tuple[str, str, str, str], Row] = {}
    for score in record.scores:
        labels, features = str(score.get("labels", ALL_LABELS)), str(score.get("features", ""))
        key = (str(score["task"]), str(score["probe"]), labels, features)
        rows.setdefault(key, {})[str(score["representation"])] = score
    return rows


def _cells(task: str, probe: str, labels: str, row: Row) -> list[str]:
    best = max(score["accuracy"] for score in row.values())
    any_score = next(iter(row.values()))
    number = f" ({any_score['num_labels']:,})" if any_score.get("num_labels") else ""
    cells = [escape(task), escape(probe), escape(labels + number), f"{any_score['chance']:.1%}"]
    for name in NAMES:
        shown = _accuracy(row[name]) if name in row else "–"
        cells.append(f"<b>{shown}</b>" if name in row and row[name]["accuracy"] == best else shown)
    return [*cells, _difference(row)]


def _accuracy(score: dict[str, Any]) -> str:
    """With its 95 % interval, and its spread over seeds where there are several."""
    text = f"{score['accuracy']:.1%}"
    if score.get("spread") is not None:
        text += f" ± {100 * score['spread']:.1f}"
    if score.get("interval"):
        low, high = score["interval"]
        text += f' <span class="note">{100 * low:.1f}–{100 * high:.1f}</span>'
    return text


def _difference(row: Row) -> str:
    if not {TRAINED, RANDOM} <= row.keys():
        return "–"
    points = 100 * (row[TRAINED]["accuracy"] - row[RANDOM]["accuracy"])
    limits = row[TRAINED].get("gain_interval")
    text = f'<span class="{"up" if points > 0 else "down"}">{points:+.1f}</span>'
    if limits:
        text += f' <span class="note">{100 * limits[0]:+.1f} to {100 * limits[1]:+.1f}</span>'
    return text.replace("-", "−")


def _notes(record: Record) -> str:
    """What was asked, of how many pictures, and whether test pictures had been seen before."""
    notes = []
    for task in dict.fromkeys(str(score["task"]) for score in record.scores):
        score = next(score for score in record.scores if score["task"] == task)
        if not score.get("num_test"):
            continue
        about = score.get("protocol", {}).get("about", "")
        sizes = f"{score.get('num_train', 0):,} training and {score['num_test']:,} test pictures"
        notes.append(f"<b>{escape(task)}</b>: {escape(about)}{'; ' if about else ''}{sizes}.")
        for where in ("training", "pretraining"):
            if (score.get("leaks") or {}).get(where):
                notes.append(f"Beware: {score['leaks'][where]:,} test pictures occur in the {where} data.")
    return paragraph(" ".join(notes), "note") if notes else ""


def tile(record: Record) -> tuple[str, str, str]:
    """In how many cases training helped; not the best of them, which would promise too much."""
    rows = [row for row in _by_task(record).values() if {TRAINED, RANDOM} <= row.keys()]
    if not rows:
        return "Scores", "none yet", _evaluation(record)
    better = sum(row[TRAINED]["accuracy"] > row[RANDOM]["accuracy"] for row in rows)
    return "Scores", f"{better} of {len(rows)}", "above the same encoder with random weights"


def _evaluation(record: Record) -> str:
    return f"openjepa evaluate {shlex.quote(str(record.folder.path))} --task scenes-count"
