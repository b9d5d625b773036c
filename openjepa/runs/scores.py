"""A score with everything one needs to trust it, its text in tables, and the files in RUN/evals that hold scores."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from openjepa.core.errors import BadInput
from openjepa.runs import records
from openjepa.runs.directory import RunFolder, write_json

PIXELS, RANDOM, PATCHES, TRAINED = "pixels", "random encoder", "patches", "trained"
DISPLAY = {  # as people read them
    PIXELS: "raw pixels",
    RANDOM: "random weights",
    PATCHES: "patch dictionary",
    TRAINED: "trained encoder",
}
ALL_LABELS = "all"
NONE = "–"  # in tables
MAX_NAME = 100  # letters of a file name
Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Score:
    task: str
    probe: str
    representation: str  # pixels, random encoder, patches, trained
    accuracy: float  # the task's metric; the mean over seeds
    interval: Interval | None = None  # 95 %, over test images and seeds
    chance: float  # the accuracy of always predicting the most common class of the training set
    spread: float | None = None  # standard deviation over seeds, if there are several
    gain: float | None = None  # over random weights, on the same images and labels …
    gain_interval: Interval | None = None  # … and its 95 % interval
    metric: str = "accuracy"
    balanced_accuracy: float = 0.0  # the mean of the classes' own accuracies
    labels: str = ALL_LABELS  # the budget: all, 1%, 5/class, a list
    num_labels: int = 0  # labelled images a probe saw
    num_train: int = 0  # training images, labelled or not
    num_test: int = 0
    num_classes: int = 0
    seeds: tuple[int, ...] = (0,)  # of label draws and probes
    encoder: str = ""  # target encoder, context encoder, module, fresh weights
    features: str = "last"  # last block, or the last four
    protocol: dict[str, Any] = field(default_factory=dict)
    weights: str = ""  # sha256 of what was evaluated
    data: dict[str, str] = field(default_factory=dict)  # fingerprints
    leaks: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0  # of fitting and predicting, without feature extraction
    made: dict[str, Any] = field(default_factory=dict)  # when, with which version
    extra: dict[str, Any] = field(default_factory=dict)  # keys of other versions

    def as_dict(self) -> dict[str, Any]:
        return records.dump(self)

    @property
    def text(self) -> str:
        return accuracy_text(self.accuracy, self.interval, spread=self.spread)

    @property
    def gain_text(self) -> str:
        return NONE if self.gain is None else gain_text(self.gain, self.gain_interval)

    @property
    def key(self) -> tuple[str, ...]:
        """A new score replaces the old one with the same key."""
        return (self.representation, *self.group)

    @property
    def group(self) -> tuple[str, ...]:
        """The same for an encoder and the baselines that were measured with it."""
        return self.task, self.probe, self.labels, self.encoder, self.features


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def accuracy_text(accuracy: float, interval: Interval | None, *, spread: float | None = None) -> str:
    """In percent, with the spread over seeds and the 95 % interval.

    >>> from openjepa.runs.scores import accuracy_text
    >>> accuracy_text(0.421, (0.4, 0.44), spread=0.012)
    '42.1 ± 1.2 [40.0, 44.0]'
    """
    text = percent(accuracy) if spread is None else f"{percent(accuracy)} ± {percent(spread)}"
    return text if interval is None else f"{text} [{percent(interval[0])}, {percent(interval[1])}]"


def gain_text(gain: float, interval: Interval | None = None) -> str:
    """In percentage points, with a sign.

    >>> from openjepa.runs.scores import gain_text
    >>> gain_text(0.05, (-0.01, 0.11))
    '+5.0 [-1.0, +11.0]'
    """
    text = f"{100 * gain:+.1f}"
    return text if interval is None else f"{text} [{100 * interval[0]:+.1f}, {100 * interval[1]:+.1f}]"


def store(folder: RunFolder, scores: Sequence[Score]) -> None:
    """Adds to earlier scores of the same weights. Scores of other weights are removed: they describe another encoder."""
    folder.evals.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.evals / ".lock"):
        for task in dict.fromkeys(score.task for score in scores):
            path = file_of(folder, task)
            new = [score for score in scores if score.task == task]
            write(path, [*_same_weights(read(path), new), *new])


def write(path: Path, scores: Sequence[Score]) -> None:
    write_json(path, [score.as_dict() for score in scores])


def _same_weights(old: Sequence[Score], new: Sequence[Score]) -> list[Score]:
    replaced = {score.key for score in new}
    weights = {score.weights for score in new if score.representation == TRAINED}
    groups = {score.group for score in old if score.weights in weights}
    return [score for score in old if score.group in groups and score.key not in replaced]


def read(path: Path) -> list[Score]:
    """The scores in a file; none if the file does not exist. Rows that are not valid scores are skipped."""
    if not path.exists():
        return []
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read ({error}); fix or delete it, then evaluate again") from None
    return [score for row in rows for score in _valid(row)] if isinstance(rows, list) else []


def _valid(row: Any) -> list[Score]:
    """One score, or none."""
    try:
        return [records.load(Score, row, where="score")]
    except BadInput:
        return []


def file_of(folder: RunFolder, task: str) -> Path:
    """A task may be a path: the name has no slashes, and no more letters than file systems allow."""
    name = re.sub(r"[^\w.-]", "_", task)
    if len(name) > MAX_NAME:
        name = f"{name[-MAX_NAME:]}-{hashlib.sha256(task.encode()).hexdigest()[:8]}"
    return folder.evals / f"{name}.json"
