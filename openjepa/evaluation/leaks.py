"""Counts test images that also occur in the training or pretraining data. Exact copies only.

A published 87 % came from such a mistake.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from openjepa.core.errors import BadInput
from openjepa.data import digests as identity
from openjepa.data.abilities import has_files
from openjepa.data.open import open_source
from openjepa.evaluation.candidate import Candidate
from openjepa.evaluation.probing import Probing
from openjepa.evaluation.tasks.task import Task
from openjepa.machine import console


@dataclass(frozen=True)
class Leaks:
    """Numbers of test images; None: not known."""

    training: int | None = None
    pretraining: int | None = None
    reason: str = ""  # why something is not known

    def as_dict(self) -> dict[str, Any]:
        return {"training": self.training, "pretraining": self.pretraining, "reason": self.reason}


@dataclass(frozen=True)
class Seen:
    """The images an encoder was pretrained on, if known."""

    digests: Tensor | None = None  # [S, 32]
    are_files: bool = False
    reason: str = "it is not known what the encoder was pretrained on"


def seen_by(candidate: Candidate, *, uses_cache: bool) -> Seen:
    if candidate.pretraining is None:
        return Seen()
    try:
        source = open_source(candidate.pretraining, image_size=candidate.image_size)
    except BadInput as error:
        return Seen(reason=_noticed(f"the pretraining data cannot be opened: {error}"))
    digests = identity.digests(source, track=console.track, uses_cache=uses_cache)
    return Seen(digests, has_files(source), "")


def count(probing: Probing, seen: Seen) -> Leaks:
    """Compares digests, and warns. Broken images do not count."""
    task = probing.task
    draws, parts = probing.label_draws, (task.test, probing.label_draws.train)
    test, train = (probing.extractor.digests(part)[draws.are_valid(part)] for part in parts)
    in_training = int(identity.occur_in(test, train).sum())
    in_pretraining, reason = None, seen.reason
    if seen.digests is not None and seen.are_files != has_files(task.test.source):
        reason = _noticed(
            "one of the pretraining and test data is files, the other is not, so their digests cannot be compared"
        )
    elif seen.digests is not None:
        in_pretraining = int(identity.occur_in(test, seen.digests).sum())
    counts = Leaks(in_training, in_pretraining, reason)
    _warn(task, counts, len(test))
    return counts


def _noticed(reason: str) -> str:
    console.notice(f"notice: it is not known whether pretraining saw test images: {reason}")
    return reason


def _warn(task: Task, counts: Leaks, num_test: int) -> None:
    if counts.training:
        console.notice(
            f"warning: {counts.training} of {num_test} test images of {task.name} are also training images; the scores "
            "are too high"
        )
    if counts.pretraining:
        console.notice(
            f"warning: {counts.pretraining} of {num_test} test images of {task.name} were seen in pretraining (without "
            "labels); mention it when you report the scores"
        )
