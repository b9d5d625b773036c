"""The scores of a run beside their floors, as a table and in a few words."""

import math
import shlex
from html import escape

from openjepa.app import report_words as words
from openjepa.app.evaluate import PIXELS, RANDOM, TRAINED
from openjepa.app.report_parts import Section, paragraph, table
from openjepa.app.report_record import Record


def section(record: Record) -> Section:
    rows = _by_task(record)
    if not rows:
        text = f"Not evaluated yet. Run <code>{escape(_evaluation(record))}</code>."
        return Section("scores", "Scores", paragraph(text))
    names = [name for name in (PIXELS, RANDOM, TRAINED) if any(name in row for row in rows.values())]
    names += sorted({name for row in rows.values() for name in row} - {*names, "chance"})
    gain = [f"{TRAINED} − random"] if {TRAINED, RANDOM} <= set(names) else []
    head = [escape(cell) for cell in ("task", "probe", "chance", *names, *gain)]
    body = [_score_row(task, probe, row, names, bool(gain)) for (task, probe), row in rows.items()]
    return Section("scores", "Scores", paragraph(words.SCORES) + table(head, body, "scores") + _uncertainty(record))


def _by_task(record: Record) -> dict[tuple[str, str], dict[str, float]]:
    """(task, probe) -> accuracy of each representation, and "chance"."""
    rows: dict[tuple[str, str], dict[str, float]] = {}
    for score in record.scores:
        row = rows.setdefault((str(score["task"]), str(score["probe"])), {"chance": float(score["chance"])})
        row[str(score["representation"])] = float(score["accuracy"])
    return rows


def _score_row(task: str, probe: str, row: dict[str, float], names: list[str], has_gain: bool) -> list[str]:
    best = max(row[name] for name in names if name in row)
    cells = [escape(task), escape(probe), f"{row['chance']:.1%}"]
    for name in names:
        shown = f"{row[name]:.1%}" if name in row else "–"
        cells.append(f"<b>{shown}</b>" if row.get(name) == best else shown)
    if has_gain:
        cells.append(_difference(row))
    return cells


def _difference(row: dict[str, float]) -> str:
    if not {TRAINED, RANDOM} <= row.keys():
        return "–"
    points = 100 * (row[TRAINED] - row[RANDOM])
    return f'<span class="{"up" if points > 0 else "down"}">{points:+.1f}</span>'.replace("-", "−")


def _uncertainty(record: Record) -> str:
    sizes = [int(score["num_test"]) for score in record.scores if score.get("num_test")]
    if not sizes:
        return ""
    margin = 100 * 1.96 * math.sqrt(0.25 / min(sizes))
    return paragraph(f"With {min(sizes):,} test pictures an accuracy is known to ± {margin:.1f} points (95 %).", "note")


def tile(record: Record) -> tuple[str, str, str]:
    """In how many cases training helped; not the best of them, which would promise too much."""
    rows = [row for row in _by_task(record).values() if {TRAINED, RANDOM} <= row.keys()]
    if not rows:
        return "Scores", "none yet", _evaluation(record)
    better = sum(row[TRAINED] > row[RANDOM] for row in rows)
    return "Scores", f"{better} of {len(rows)}", "above the same encoder with random weights"


def _evaluation(record: Record) -> str:
    return f"openjepa evaluate {shlex.quote(str(record.folder.path))} --task scenes-count"
