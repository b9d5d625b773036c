"""From images to the batches of step i, i+1, …: the same for any number of workers and devices."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

import torch
from torch import Tensor

from openjepa.core import seeding
from openjepa.core.errors import BadInput
from openjepa.core.types import Augmentation, Batch
from openjepa.data.batches.images import Images
from openjepa.data.batches.order import Order, Split
from openjepa.data.crops import batched, colours
from openjepa.data.crops.crop import CropRequest, draw_crops

T = TypeVar("T")


@dataclass(frozen=True)
class Loader:
    images: Images
    order: Order
    split: Split
    seed: int
    max_broken: float  # share of the source
    device: torch.device
    augmentations: tuple[Augmentation, ...] = ()  # one for each crop; none: the only crop keeps its colours
    broken: dict[str, str] = field(default_factory=dict)  # path -> reason, grows as broken images are found

    def batches(self, start: int) -> Iterator[Batch]:
        """`split.accumulate` batches for each step from `start` on, without end."""
        crops = self.images.batches(self.requests(start), self.device)
        for (step, rows), cropped in zip(self._rounds(start), crops, strict=False):
            self._add_broken(cropped.broken)
            views = [self._finished(view, number, step, rows) for number, view in enumerate(cropped.views)]
            yield Batch(views[0], cropped.index, tuple(views) if self.augmentations else ())

    def requests(self, start: int) -> Iterator[CropRequest]:
        """What `batches` is made of, before an image is decoded."""
        for step, rows in self._rounds(start):
            draws = (self._draw(draw_crops, "crops", view, step) for view in range(len(self.images.crops)))
            yield CropRequest(self.order.indices(step)[rows], tuple(one.take(rows) for one in draws))

    def _rounds(self, start: int) -> Iterator[tuple[int, slice]]:
        """(step, rows of the global batch that this process works on), without end."""
        for step in count(start):
            for accumulation_round in range(self.split.accumulate):
                yield step, self.split.rows(accumulation_round)

    def _finished(self, images: Tensor, view: int, step: int, rows: slice) -> Tensor:
        """[B, 3, h, w] in 0 … 255 -> normalised, with its colours changed if the method has augmentations."""
        if not self.augmentations:
            return batched.normalise(images)
        draws = self._draw(colours.draw, "colours", view, step).take(rows)
        return batched.normalise(255 * colours.colours(images / 255, draws, self.augmentations[view]))

    def _draw(self, draw: Callable[[int, torch.Generator], T], purpose: str, view: int, step: int) -> T:
        """For the global batch; every view has numbers of its own."""
        name = f"{purpose} {view}" if view else purpose
        return draw(self.split.batch_size, seeding.generator(self.seed, name, step))

    def _add_broken(self, broken: dict[str, str]) -> None:
        if broken.keys() <= self.broken.keys():
            return
        self.broken.update(broken)
        self.check_broken()

    def check_broken(self) -> None:
        """Too many broken images are a sign of a broken copy, not of a few bad files."""
        total = len(self.images)
        if len(self.broken) > self.max_broken * total:
            path, reason = next(iter(self.broken.items()))
            raise BadInput(
                f"{len(self.broken)} of {total} images cannot be decoded so far, more than data.max_broken = "
                f"{self.max_broken:g} allows; the first is {path} ({reason}); fix or remove them (openjepa data check lists "
                f"them), or raise the limit with --set data.max_broken={min(1.0, len(self.broken) / total + 0.05):.2f}"
            )
