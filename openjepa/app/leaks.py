"""Do test pictures also occur in what was learned from? Exact copies only; FACTS: a published 87 % came from such a mistake."""

from dataclasses import dataclass
from typing import Any

from openjepa.app import console
from openjepa.app.extraction import Extractor
from openjepa.core.errors import BadInput
from openjepa.data import identity
from openjepa.data.spec import open_source
from openjepa.tasks.opening import Task


@dataclass(frozen=True)
class Leaks:
    """Numbers of test pictures; None: could not be looked at."""

    training: int | None = None
    pretraining: int | None = None
    reason: str = ""  # why something could not be looked at

    def as_dict(self) -> dict[str, Any]:
        return {"training": self.training, "pretraining": self.pretraining, "reason": self.reason}


def look(task: Task, extractor: Extractor, pretraining: str | None) -> Leaks:
    """Compares digests, and warns."""
    test = extractor.digests(task.test.source)[task.test.index]
    train = extractor.digests(task.train.source)[task.train.index]
    in_training = int(identity.occur_in(test, train).sum())
    in_pretraining, reason = None, "it is not known what the encoder was pretrained on"
    if pretraining is not None:
        try:
            source = open_source(pretraining, image_size=extractor.image_size)
            in_pretraining, reason = int(identity.occur_in(test, extractor.digests(source)).sum()), ""
        except BadInput as error:
            reason = f"the pretraining data cannot be opened: {error}"
    found = Leaks(in_training, in_pretraining, reason)
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
