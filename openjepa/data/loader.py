"""From a source to the batches of step i, i+1, …: the same for any number of workers and devices."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import torch

from openjepa.core import seeding
from openjepa.core.errors import BadInput
from openjepa.core.types import Batch
from openjepa.data import transforms
from openjepa.data.crop import Crop, Cropped, Wanted
from openjepa.data.order import Order, Split


class Croppable(Protocol):
    """Pictures of one source that can be cropped in batches."""

    def __len__(self) -> int: ...

    def crops(self, wanted: Iterable[Wanted], crop: Crop, device: torch.device) -> Iterator[Cropped]: ...


@dataclass(frozen=True)
class Loader:
    pictures: Croppable
    order: Order
    split: Split
    seed: int
    crop: Crop
    max_broken: float  # share of the source
    device: torch.device
    broken: dict[str, str] = field(default_factory=dict)  # path -> reason, grows as broken pictures are met

    def batches(self, start: int) -> Iterator[Batch]:
        """`split.accumulate` batches for each step from `start` on, without end."""
        for cropped in self.pictures.crops(self.wanted(start), self.crop, self.device):
            self._remember(cropped.broken)
            yield Batch(cropped.images, cropped.index)

    def wanted(self, start: int) -> Iterator[Wanted]:
        """What `batches` is made of, before a picture is decoded."""
        for step in count(start):
            index = self.order.indices(step)
            draws = transforms.draw_crops(self.split.batch_size, seeding.generator(self.seed, "crops", step))
            for accumulation_round in range(self.split.accumulate):
                rows = self.split.rows(accumulation_round)
                yield Wanted(index[rows], draws.take(rows))

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
