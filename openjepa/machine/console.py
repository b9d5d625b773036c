"""Progress on the screen: a bar on a terminal, plain lines elsewhere, nothing from other ranks.

All of it goes to stderr; stdout is for results, so that `--json` output can be piped.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from openjepa.machine import distributed

T = TypeVar("T")
Track = Callable[[Iterable[T], str, int], Iterable[T]]  # a function such as `track`: items, text, how many
LINE_SECONDS = 15.0  # between two plain lines

out = Console(stderr=True, highlight=False, soft_wrap=True)


def notice(text: str) -> None:
    """Prints one line, on rank 0."""
    if distributed.is_main():
        out.print(text, markup=False)


def track(items: Iterable[T], label: str, total: int) -> Iterator[T]:
    """Yields the items and shows how many are done."""
    if not (out.is_terminal and distributed.is_main()):
        yield from _track_in_lines(items, label, total)
        return
    with _bar() as bar:
        task = bar.add_task(label, total=total, values="")
        for item in items:
            yield item
            bar.advance(task)


def _track_in_lines(items: Iterable[T], label: str, total: int) -> Iterator[T]:
    notice(f"{label} …")
    last_line = time.perf_counter()
    for done, item in enumerate(items, start=1):
        yield item
        if time.perf_counter() - last_line >= LINE_SECONDS:
            last_line = time.perf_counter()
            notice(f"{label}: {done}/{total}")


class TrainingProgress:
    """`with TrainingProgress(total, start) as progress:` … `progress.update(step, values, total)`."""

    def __init__(self, total: int, start: int) -> None:
        self.total, self.start = total, start
        self.began = time.perf_counter()
        self.last_line = -LINE_SECONDS
        self.values: dict[str, float] = {}
        self.state = ""  # one word when the watch has a warning
        self.bar = _bar() if out.is_terminal and distributed.is_main() else None

    def __enter__(self) -> "TrainingProgress":
        if self.bar is not None:
            self.bar.start()
            self.task = self.bar.add_task("training", total=self.total, completed=self.start, values="")
        else:
            notice(f"training: {self.total - self.start} steps …")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def update(self, step: int, values: Mapping[str, float], total: int, state: str = "") -> None:
        """`total` may differ from the one at the start: a time budget revises its number of steps."""
        self.values.update(values)
        self.state, self.total = state, total
        if self.bar is not None:
            self.bar.update(self.task, completed=step, total=total, values=self._numbers())
            return
        elapsed = time.perf_counter() - self.began
        if elapsed - self.last_line >= LINE_SECONDS or step >= self.total:
            self.last_line = elapsed
            left = elapsed / max(step - self.start, 1) * (self.total - step)
            notice(f"step {step}/{self.total} · {self._numbers()} · {duration(left)} left")
            sys.stderr.flush()

    def _numbers(self) -> str:
        words = [self.state] if self.state else []
        for name, label, form in SHOWN:
            if name in self.values:
                words.append(f"{label}{format(self.values[name], form)}")
        return " · ".join(words)


SHOWN = (
    ("train/loss", "loss ", ".4f"),
    ("collapse/token_rank", "rank ", ".1f"),
    ("prediction/skill", "skill ", ".2f"),
    ("probe/logistic", "probe ", ".1%"),
    ("throughput/images_per_second", "images/s ", ".0f"),
)


def duration(seconds: float) -> str:
    """1 h 02 min, 3 min 05 s, 12 s."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[values]}"),
        console=out,
    )
