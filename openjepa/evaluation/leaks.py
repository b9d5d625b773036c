"""Do test pictures also occur in what was learned from? Exact copies only. A published 87 % came from such a mistake."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from openjepa.core.contracts import HasFiles
from openjepa.core.errors import BadInput
from openjepa.data import digests as identity
from openjepa.data.open import open_source
from openjepa.evaluation.candidate import Subject
from openjepa.evaluation.probing import Probing
from openjepa.evaluation.tasks.task import Task
from openjepa.machine import console


@dataclass(frozen=True)
class Leaks:
    """Numbers of test pictures; None: could not be looked at."""

    training: int | None = None
    pretraining: int | None = None
    reason: str = ""  # why something could not be looked at

    def as_dict(self) -> dict[str, Any]:
        return {"training": self.training, "pretraining": self.pretraining, "reason": self.reason}


@dataclass(frozen=True)
class Seen:
    """What an encoder was pretrained on, as far as we can tell."""

    digests: Tensor | None = None  # [S, 32]
    are_files: bool = False
    reason: str = "it is not known what the encoder was pretrained on"


def seen_by(subject: Subject, *, uses_cache: bool) -> Seen:
    if subject.pretraining is None:
        return Seen()
    try:
        source = open_source(subject.pretraining, image_size=subject.image_size)
    except BadInput as error:
        return Seen(reason=_said(f"the pretraining data cannot be opened: {error}"))
    found = identity.digests(source, track=console.track, uses_cache=uses_cache)
    return Seen(found, isinstance(source, HasFiles), "")


def look(probing: Probing, seen: Seen) -> Leaks:
    """Compares digests, and warns. Broken pictures are no pictures."""
    task = probing.task
    drawn, parts = probing.drawn, (task.test, probing.drawn.train)
    test, train = (probing.extractor.digests(part)[drawn.are_valid(part)] for part in parts)
    in_training = int(identity.occur_in(test, train).sum())
    in_pretraining, reason = None, seen.reason
    if seen.digests is not None and seen.are_files != isinstance(task.test.source, HasFiles):
        reason = _said("of the pretraining data and the test data one are files and the other are not")
    elif seen.digests is not None:
        in_pretraining = int(identity.occur_in(test, seen.digests).sum())
    found = Leaks(in_training, in_pretraining, reason)
    _warn(task, found, len(test))
    return found


def _said(reason: str) -> str:
    console.notice(f"notice: it is not known whether test pictures were seen in pretraining: {reason}")
    return reason


def _warn(task: Task, found: Leaks, num_test: int) -> None:
    if found.training:
        console.notice(
            f"warning: {found.training} of {num_test} test pictures of {task.name} are also training pictures; the scores "
            "are too good"
        )
    if found.pretraining:
        console.notice(
            f"warning: {found.pretraining} of {num_test} test pictures of {task.name} were seen in pretraining (without "
            "labels); say so beside the scores"
        )
