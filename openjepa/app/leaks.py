"""Do test pictures also occur in what was learned from? Exact copies only; FACTS: a published 87 % came from such a mistake."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from openjepa.app import console
from openjepa.app.extraction import Extractor
from openjepa.app.subject import Subject
from openjepa.core.errors import BadInput
from openjepa.data import identity
from openjepa.data.spec import open_source
from openjepa.tasks.opening import Labelled, Task


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
    reason: str = "it is not known what the encoder was pretrained on"


def seen_by(subject: Subject) -> Seen:
    if subject.pretraining is None:
        return Seen()
    try:
        source = open_source(subject.pretraining, image_size=subject.image_size)
    except BadInput as error:
        return Seen(reason=f"the pretraining data cannot be opened: {error}")
    return Seen(identity.digests(source, track=console.track), "")


def look(task: Task, train: Labelled, extractor: Extractor, seen: Seen) -> Leaks:
    """Compares digests, and warns. `train` are the pictures whose labels are used."""
    test = extractor.digests(task.test)
    in_training = int(identity.occur_in(test, extractor.digests(train)).sum())
    in_pretraining = None if seen.digests is None else int(identity.occur_in(test, seen.digests).sum())
    found = Leaks(in_training, in_pretraining, seen.reason)
    _warn(task, found, len(test))
    return found


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
