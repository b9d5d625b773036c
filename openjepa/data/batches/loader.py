"""From a source to the batches of step i, i+1, …: the same for any number of workers and devices."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from openjepa.core import seeding
from openjepa.core.errors import BadInput
from openjepa.core.types import Augmentation, Batch
from openjepa.data.batches.order import Order, Split
from openjepa.data.crops import batched, colours
from openjepa.data.crops.request import Cropped, Crops, Wanted

T = TypeVar("T")


class Croppable(Protocol):
    """Pictures of one source that can be cropped in batches."""

    def __len__(self) -> int: ...

    def crops(self, wanted: Iterable[Wanted], crops: Crops, device: torch.device) -> Iterator[Cropped]: ...


@dataclass(frozen=True)
class Loader:
    pictures: Croppable
    order: Order
    split: Split
    seed: int
    crops: Crops
    max_broken: float  # share of the source
    device: torch.device
    augmentations: tuple[Augmentation, ...] = ()  # one for each crop; none: the only crop keeps its colours
    broken: dict[str, str] = field(default_factory=dict)  # path -> reason, grows as broken pictures are met

    def batches(self, start: int) -> Iterator[Batch]:
        """`split.accumulate` batches for each step from `start` on, without end."""
        taken = self.pictures.crops(self.wanted(start), self.crops, self.device)
        for (step, rows), cropped in zip(self._rounds(start), taken, strict=False):
            self._remember(cropped.broken)
            views = [self._finished(view, place, step, rows) for place, view in enumerate(cropped.views)]
            yield Batch(views[0], cropped.index, tuple(views) if self.augmentations else ())

    def wanted(self, start: int) -> Iterator[Wanted]:
        """What `batches` is made of, before a picture is decoded."""
        for step, rows in self._rounds(start):
            draws = (self._drawn(batched.draw_crops, "crops", place, step) for place in range(len(self.crops)))
            yield Wanted(self.order.indices(step)[rows], tuple(drawn.take(rows) for drawn in draws))

    def _rounds(self, start: int) -> Iterator[tuple[int, slice]]:
        """(step, rows of the global batch that this process works on), without end."""
        for step in count(start):
            for accumulation_round in range(self.split.accumulate):
                yield step, self.split.rows(accumulation_round)

    def _finished(self, view: Tensor, place: int, step: int, rows: slice) -> Tensor:
        """[B, 3, h, w] in 0 … 255 -> normalised, with its colours changed if the method wants that."""
        if not self.augmentations:
            return batched.normalise(view)
        draws = self._drawn(colours.draw, "colours", place, step).take(rows)
        return batched.normalise(255 * colours.colours(view / 255, draws, self.augmentations[place]))

    def _drawn(self, draw: Callable[[int, torch.Generator], T], purpose: str, place: int, step: int) -> T:
        """For the global batch; every view has numbers of its own."""
        name = f"{purpose} {place}" if place else purpose
        return draw(self.split.batch_size, seeding.generator(self.seed, name, step))

    def _remember(self, broken: dict[str, str]) -> None:
        if broken.keys() <= self.broken.keys():
            return
        self.broken.update(broken)
        self.check_broken()

    def check_broken(self) -> None:
        """Too many broken pictures are a sign of a broken copy, not of a few bad files."""
        total = len(self.pictures)
        if len(self.broken) > self.max_broken * total:
            path, reason = next(iter(self.broken.items()))
            raise BadInput(
                f"{len(self.broken)} of {total} pictures cannot be decoded so far, more than data.max_broken = "
                f"{self.max_broken:g} allows; the first is {path} ({reason}); mend or remove them (openjepa data check lists "
                f"them) or raise the limit with --set data.max_broken={min(1.0, len(self.broken) / total + 0.05):.2f}"
            )
