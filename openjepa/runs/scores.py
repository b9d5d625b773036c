"""A score with everything one needs to believe it, and the files in RUN/evals that keep scores."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from openjepa.core.errors import BadInput
from openjepa.runs.directory import RunFolder, write_json

PIXELS, RANDOM, TRAINED = "pixels", "random encoder", "trained"
ALL_LABELS = "all"
NEEDED = {"task", "probe", "representation", "accuracy", "chance"}  # keys without which a row is no score
LONGEST_NAME = 100
SAME = (
    "task",
    "probe",
    "representation",
    "labels",
    "encoder",
    "features",
)  # a new score with these replaces an old one


@dataclass(frozen=True)
class Score:
    task: str
    probe: str
    representation: str  # pixels, random encoder, trained
    accuracy: float  # the task's metric; the mean over seeds
    interval: tuple[float, float]  # 95 %, over test pictures and seeds
    chance: float  # of always naming the commonest class of the training set
    spread: float | None = None  # standard deviation over seeds, where there are several
    gain: float | None = None  # over random weights, on the same pictures and labels …
    gain_interval: tuple[float, float] | None = None  # … and its 95 % interval
    metric: str = "accuracy"
    balanced_accuracy: float = 0.0  # the mean of the classes' own accuracies
    labels: str = ALL_LABELS  # the budget: all, 1%, 5/class, a list
    num_labels: int = 0  # labelled pictures a probe saw
    num_train: int = 0  # of so many training pictures
    num_test: int = 0
    num_classes: int = 0
    seeds: tuple[int, ...] = (0,)  # of label draws and probes
    encoder: str = ""  # target or context encoder, or what else
    features: str = "last"  # last block, or the last four
    protocol: dict[str, Any] = field(default_factory=dict)
    weights: str = ""  # sha256 of what was evaluated
    data: dict[str, str] = field(default_factory=dict)  # fingerprints
    leaks: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0  # of fitting and predicting, features not counted
    made: dict[str, Any] = field(default_factory=dict)  # when, with which version

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def store(folder: RunFolder, scores: Sequence[Score]) -> None:
    """Beside earlier ones of the same weights; those of other weights go, they are no longer about this run."""
    folder.evals.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.evals / ".lock"):
        for task in dict.fromkeys(score.task for score in scores):
            path = file_of(folder, task)
            new = [score.as_dict() for score in scores if score.task == task]
            write_json(path, _still_true(read(path), new) + new)


def _still_true(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    replaced = {_key(row) for row in new}
    weights = {row["weights"] for row in new if row["representation"] == TRAINED}
    groups = {_group(row) for row in old if row.get("weights") in weights}
    return [row for row in old if _group(row) in groups and _key(row) not in replaced]


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of scores; none when there is no such file or it holds something else."""
    if not path.exists():
        return []
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read ({error}); mend or delete it, then evaluate again") from None
    return [row for row in rows if _is_score(row)] if isinstance(rows, list) else []


def _is_score(row: Any) -> bool:
    if not isinstance(row, dict) or not row.keys() >= NEEDED:
        return False
    return all(isinstance(row[name], int | float) for name in ("accuracy", "chance"))


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in SAME)


def _group(row: dict[str, Any]) -> tuple[Any, ...]:
    """The rows of the floors belong to the row of the encoder that they were measured with."""
    return tuple(row.get(name) for name in SAME if name != "representation")


def file_of(folder: RunFolder, task: str) -> Path:
    """A task may be a path: no slashes in the name, and no more letters than file systems allow."""
    name = re.sub(r"[^\w.-]", "_", task)
    if len(name) > LONGEST_NAME:
        name = f"{name[-LONGEST_NAME:]}-{hashlib.sha256(task.encode()).hexdigest()[:8]}"
    return folder.evals / f"{name}.json"
