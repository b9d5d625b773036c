"""How results look in a terminal: rich tables for people, JSON for programs."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

if TYPE_CHECKING:  # imports pydantic: --help should not wait for it
    from openjepa.runs.scores import Score

# Without a terminal, 140 columns: a log shows wide tables on one line.
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 140)


def say(text: str) -> None:
    out.print(text, markup=False)


def count(number: int, noun: str) -> str:
    """1 step, 2 steps."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def as_json_text(value: Any) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False, default=str))


def scores(results: Sequence["Score"], *, as_json: bool) -> None:
    """Task, probe and labels × representation, in percent."""
    from openjepa.runs.scores import ALL_LABELS, DISPLAY, percent

    if as_json:
        as_json_text([score.as_dict() for score in results])
        return
    representations = list(dict.fromkeys(score.representation for score in results))
    has_budget = any(score.labels != ALL_LABELS for score in results)
    names = ["probe", *(["labels"] if has_budget else []), "chance", *(DISPLAY[name] for name in representations[:-1])]
    names += [f"{results[-1].encoder} [95 %]", "gain [95 %]"]
    table = Table(Column("task", overflow="fold"), *(Column(escape(name), no_wrap=True) for name in names))
    for key in dict.fromkeys((score.task, score.probe, score.labels) for score in results):
        row = [score for score in results if (score.task, score.probe, score.labels) == key]
        last = row[-1]
        cells = [last.probe, *([f"{last.labels} ({last.num_labels:,})"] if has_budget else []), percent(last.chance)]
        cells += [percent(score.accuracy) for score in row[:-1]]
        table.add_row(*map(escape, [last.task, *cells, last.text, last.gain_text]))
    out.print(table)
    _say_more(results)


def _say_more(results: Sequence["Score"]) -> None:
    metrics = " or ".join(dict.fromkeys(score.metric for score in results))
    say(f"{metrics} in %; gain: over the same encoder with random weights, on the same images and labels")
    for task in dict.fromkeys(score.task for score in results):
        score = next(score for score in results if score.task == task)
        about = f"{score.num_train:,} training and {score.num_test:,} test images, {score.num_classes} classes"
        say(f"{task}: {score.protocol['about']}; {about}")
        for where in ("training", "pretraining"):
            if score.leaks.get(where):
                say(f"  warning: {score.leaks[where]:,} of the test images occur in the {where} data")


def mapping(values: Mapping[str, Any], *, as_json: bool) -> None:
    """Name and value, a line each; long lists are cut."""
    if as_json:
        as_json_text(values)
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in _flat(values):
        table.add_row(escape(name), escape(_short(value)))
    out.print(table)


def rows(values: Sequence[Mapping[str, Any]], *, as_json: bool, empty: str = "nothing") -> None:
    if as_json:
        as_json_text(list(values))
        return
    if not values:
        say(empty)
        return
    names = list(dict.fromkeys(name for row in values for name in row))
    table = Table(*names)
    for row in values:
        table.add_row(*(escape(_short(row.get(name, ""))) for name in names))
    out.print(table)


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs = []
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            pairs += _flat(value, f"{prefix}{name} · ")
        else:
            pairs.append((f"{prefix}{name}", value))
    return pairs


def _short(value: Any, most: int = 10) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        shown = ", ".join(_short(item) for item in value[:most])
        return shown + (f", … ({len(value)} in all)" if len(value) > most else "")
    return str(value) if value is not None else "–"
