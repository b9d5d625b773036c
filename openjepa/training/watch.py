"""The watch of a run: prints each new verdict once and, with watch=stop, stops a run that collapses or diverges.

It exists on rank 0 only; the loop shares a request to stop with all processes.
"""

from collections.abc import Mapping
from typing import Any

from openjepa.core.config import Config
from openjepa.core.errors import BadInput
from openjepa.machine import console
from openjepa.training import verdict
from openjepa.training.verdict import Verdict


def check(config: Config) -> None:
    if config.watch == "stop" and config.monitors.get("collapse") is False:
        raise BadInput(
            "watch=stop needs the collapse monitor, but monitors.collapse is off; switch it on, or use watch=warn"
        )


class Watch:
    """`rows` are the metrics of a resumed run, so that it does not repeat an earlier message."""

    def __init__(self, mode: str, rows: list[dict[str, Any]]) -> None:
        self.mode = mode
        self.rows = list(rows) if mode != "off" else []
        self.verdict: Verdict | None = verdict.judge(self.rows) if self.rows else None
        self.wants_stop = False

    def __call__(self, step: int, values: Mapping[str, float]) -> None:
        if self.mode == "off":
            return
        self.rows.append({"step": step, **values})
        if not verdict.is_reading(values):
            return
        before, self.verdict = self.verdict, verdict.judge(self.rows)
        self.wants_stop = self.mode == "stop" and self.verdict.is_hopeless
        if self._is_news(before):
            console.notice(f"watch, step {step}: {self.verdict}")

    def _is_news(self, before: Verdict | None) -> bool:
        """A new bad verdict, or the end of one."""
        assert self.verdict is not None
        was_bad = before is not None and before.is_bad
        is_same = before is not None and before.kind == self.verdict.kind
        return not is_same and (self.verdict.is_bad or was_bad)

    @property
    def state(self) -> str:
        """One word for the progress line; empty while the run is healthy."""
        return self.verdict.kind if self.verdict is not None and self.verdict.is_bad else ""
