"""The scores of a run beside their baselines, as a table and in a few words."""

import shlex
from typing import Any

from markupsafe import Markup

from openjepa.report import captions
from openjepa.report.page import Cell, Paragraph, Section, Table
from openjepa.report.record import Record
from openjepa.runs.scores import ALL_LABELS, PIXELS, RANDOM, TRAINED

Row = dict[str, dict[str, Any]]  # representation -> its score
NAMES = (PIXELS, RANDOM, TRAINED)


def section(record: Record) -> Section:
    rows = _by_task(record)
    if not rows:
        text = Markup("Not evaluated yet. Run <code>{}</code>.").format(_evaluation(record))
        return Section("scores", "Scores", [Paragraph(text)])
    head = ["task", "probe", "labels", "chance", *NAMES, f"{TRAINED} − random"]
    body = [_cells(task, probe, labels, row) for (task, probe, labels, _), row in rows.items()]
    return Section("scores", "Scores", [Paragraph(captions.SCORES), Table(head, body, "scores"), *_notes(record)])


def _by_task(record: Record) -> dict[tuple[str, str, str, str], Row]:
    """(task, probe, labels, features) -> representation -> score."""
    rows: dict[tuple[str, str, str, str], Row] = {}
    for score in record.scores:
        labels, features = str(score.get("labels", ALL_LABELS)), str(score.get("features", ""))
        key = (str(score["task"]), str(score["probe"]), labels, features)
        rows.setdefault(key, {})[str(score["representation"])] = score
    return rows


def _cells(task: str, probe: str, labels: str, row: Row) -> list[str | Cell]:
    best = max(score["accuracy"] for score in row.values())
    any_score = next(iter(row.values()))
    number = f" ({any_score['num_labels']:,})" if any_score.get("num_labels") else ""
    accuracies = [_accuracy(row[name], best) if name in row else "–" for name in NAMES]
    return [task, probe, labels + number, f"{any_score['chance']:.1%}", *accuracies, _difference(row)]


def _accuracy(score: dict[str, Any], best: float) -> Cell:
    """With its 95 % interval, and its spread over seeds where there are several."""
    text, note = f"{score['accuracy']:.1%}", ""
    if score.get("spread") is not None:
        text += f" ± {100 * score['spread']:.1f}"
    if score.get("interval"):
        low, high = score["interval"]
        note = f"{100 * low:.1f}–{100 * high:.1f}"
    return Cell(text, note, "best" if score["accuracy"] == best else "")


def _difference(row: Row) -> str | Cell:
    if not {TRAINED, RANDOM} <= row.keys():
        return "–"
    points = 100 * (row[TRAINED]["accuracy"] - row[RANDOM]["accuracy"])
    limits = row[TRAINED].get("gain_interval")
    note = f"{100 * limits[0]:+.1f} to {100 * limits[1]:+.1f}" if limits else ""
    return Cell(f"{points:+.1f}".replace("-", "−"), note.replace("-", "−"), "up" if points > 0 else "down")


def _notes(record: Record) -> list[Paragraph]:
    """For each task: what it is about, how many images it has, and whether test images were seen before."""
    notes = []
    for task in dict.fromkeys(str(score["task"]) for score in record.scores):
        score = next(score for score in record.scores if score["task"] == task)
        if not score.get("num_test"):
            continue
        about = score.get("protocol", {}).get("about", "")
        sizes = f"{score.get('num_train', 0):,} training and {score['num_test']:,} test images"
        notes.append(Markup("<b>{}</b>: {}{}.").format(task, f"{about}; " if about else "", sizes))
        for where in ("training", "pretraining"):
            if (score.get("leaks") or {}).get(where):
                notes.append(
                    Markup("Warning: {:,} test images are also in the {} data.").format(score["leaks"][where], where)
                )
    return [Paragraph(Markup(" ").join(notes), "note")] if notes else []


def tile(record: Record) -> tuple[str, str, str]:
    """In how many cases training helped; not the best of them, which would promise too much."""
    rows = [row for row in _by_task(record).values() if {TRAINED, RANDOM} <= row.keys()]
    if not rows:
        return "Scores", "none yet", _evaluation(record)
    better = sum(row[TRAINED]["accuracy"] > row[RANDOM]["accuracy"] for row in rows)
    return "Scores", f"{better} of {len(rows)}", "above the same encoder with random weights"


def _evaluation(record: Record) -> str:
    return f"openjepa evaluate {shlex.quote(str(record.folder.path))} --task scenes-count"
