"""The scores of a run and of its baselines, as a table and in a few words."""

import shlex

from markupsafe import Markup

from openjepa.report import captions
from openjepa.report.page import Cell, Paragraph, Section, Table
from openjepa.report.record import Record
from openjepa.runs.scores import DISPLAY, NONE, PATCHES, PIXELS, RANDOM, TRAINED, Score, gain_text, percent

Row = dict[str, Score]  # representation -> its score


def section(record: Record) -> Section:
    rows = _by_task(record)
    if not rows:
        text = Markup("Not evaluated yet. Run <code>{}</code>.").format(_evaluation(record))
        return Section("scores", "Scores", [Paragraph(text)])
    names = _names(record)
    head = ["task", "probe", "labels", "chance, %", *(f"{DISPLAY[name]}, %" for name in names), "gain"]
    body = [_cells(*key, row, names) for key, row in rows.items()]
    return Section("scores", "Scores", [Paragraph(captions.SCORES), Table(head, body, "scores"), *_notes(record)])


def _names(record: Record) -> list[str]:
    """The representations that have a column; the patch dictionary only if it was requested."""
    has_patches = any(score.representation == PATCHES for score in record.scores)
    return [PIXELS, RANDOM, *([PATCHES] if has_patches else []), TRAINED]


def _by_task(record: Record) -> dict[tuple[str, str, str, str], Row]:
    """(task, probe, labels, features) -> representation -> score."""
    rows: dict[tuple[str, str, str, str], Row] = {}
    for score in record.scores:
        key = (score.task, score.probe, score.labels, score.features)
        rows.setdefault(key, {})[score.representation] = score
    return rows


def _cells(task: str, probe: str, labels: str, features: str, row: Row, names: list[str]) -> list[str | Cell]:
    best = max(score.accuracy for score in row.values())
    any_score = next(iter(row.values()))
    number = f" ({any_score.num_labels:,})" if any_score.num_labels else ""
    accuracies = [_accuracy(row[name], best) if name in row else NONE for name in names]
    blocks = ", four blocks" if features == "last4" else ""
    return [task, probe + blocks, labels + number, percent(any_score.chance), *accuracies, _difference(row)]


def _accuracy(score: Score, best: float) -> Cell:
    return Cell(score.text, style="best" if score.accuracy == best else "")


def _difference(row: Row) -> str | Cell:
    if not {TRAINED, RANDOM} <= row.keys():
        return NONE
    gain = row[TRAINED].accuracy - row[RANDOM].accuracy
    text = gain_text(gain, row[TRAINED].gain_interval).replace("-", "−")
    return Cell(text, style="up" if gain > 0 else "down")


def _notes(record: Record) -> list[Paragraph]:
    """What each task is, how many images it has, and whether training saw some of its test images."""
    notes = []
    for task in dict.fromkeys(score.task for score in record.scores):
        score = next(score for score in record.scores if score.task == task)
        if not score.num_test:
            continue
        about = score.protocol.get("about", "")
        sizes = f"{score.num_train:,} training and {score.num_test:,} test images"
        notes.append(Markup("<b>{}</b>: {}{}.").format(task, f"{about}; " if about else "", sizes))
        for where in ("training", "pretraining"):
            if score.leaks.get(where):
                notes.append(
                    Markup("Warning: {:,} test images are also in the {} data.").format(score.leaks[where], where)
                )
    return [Paragraph(Markup(" ").join(notes), "note")] if notes else []


def tile(record: Record) -> tuple[str, str, str]:
    """In how many cases training helped; not the best of them, which would promise too much."""
    rows = [row for row in _by_task(record).values() if {TRAINED, RANDOM} <= row.keys()]
    if not rows:
        return "Scores", "none yet", _evaluation(record)
    better = sum(row[TRAINED].accuracy > row[RANDOM].accuracy for row in rows)
    return "Scores", f"{better} of {len(rows)}", "above the same encoder with random weights"


def _evaluation(record: Record) -> str:
    task = "scenes-count" if record.config.data.source.startswith("scenes") else "LABELLED_FOLDER"
    return f"openjepa evaluate {shlex.quote(str(record.folder.path))} --task {task}"
