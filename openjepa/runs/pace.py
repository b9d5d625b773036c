"""RUN/pace.jsonl: when a run with a time budget decided how many steps it gets. A line is on disk before it takes effect."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openjepa.core.errors import BadInput
from openjepa.core.pace import Pace
from openjepa.runs import metrics, records
from openjepa.runs.directory import write_text


@dataclass(frozen=True, kw_only=True)
class Decision:
    """After `step` steps and `seconds` of training: end after `total` steps."""

    step: int
    total: int
    seconds: float
    seconds_per_step: float
    extra: dict[str, Any] = field(default_factory=dict)  # keys of other versions


def read(path: Path) -> list[Decision]:
    """Refuses a file that does not begin at step 0 or whose steps do not rise."""
    decisions = [records.load(Decision, row, where="pace.jsonl") for row in metrics.read(path)]
    steps = [decision.step for decision in decisions]
    is_valid = steps[:1] == [0] and steps == sorted(set(steps)) and all(row.step < row.total for row in decisions)
    if not is_valid:
        raise BadInput(
            f"{path} is missing or damaged, so the run cannot resume exactly; restore it, or start a new run"
        )
    return decisions


def write(path: Path, decisions: list[Decision]) -> None:
    write_text(path, "".join(_line(decision) for decision in decisions))


def append(path: Path, decision: Decision) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(_line(decision))
        file.flush()
        os.fsync(file.fileno())


def pace(decisions: list[Decision]) -> Pace:
    """The progress of every step, from all decisions."""
    result = Pace.fixed(decisions[0].total)
    for decision in decisions[1:]:
        result = result.revised(decision.step, decision.total)
    return result


def _line(decision: Decision) -> str:
    return json.dumps(records.dump(decision)) + "\n"
