"""From a source to the batches of step i, i+1, …: decoded by workers, cropped on the device, the same for any number of either."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from openjepa.core import seeding
from openjepa.core.errors import BadInput
from openjepa.core.types import Batch
from openjepa.data import transforms
from openjepa.data.order import Order, Split
from openjepa.data.pictures import Pictures, Raw


@dataclass(frozen=True)
class Loader:
    pictures: Pictures
    order: Order
    split: Split
    seed: int
    image_size: tuple[int, int]
    crop_scale: tuple[float, float]
    crop_aspect: tuple[float, float]
    flip: bool
    max_broken: float  # share of the source
    device: torch.device
    broken: dict[str, str] = field(default_factory=dict)  # path -> reason, grows as broken pictures are met

    def batches(self, start: int) -> Iterator[Batch]:
        """`split.accumulate` batches for each step from `start` on, without end."""
        places = self._places(start)
        raws = self.pictures.batches(self._indices(start))
        for (step, accumulation_round), raw in zip(places, raws, strict=False):
            self._remember(raw.broken)
            yield self._crop(raw, step, self.split.rows(accumulation_round))

    def _places(self, start: int) -> Iterator[tuple[int, int]]:
        step = start
        while True:
            for accumulation_round in range(self.split.accumulate):
                yield step, accumulation_round
            step += 1

    def _indices(self, start: int) -> Iterator[list[int]]:
        for step, accumulation_round in self._places(start):
            yield self.order.indices(step)[self.split.rows(accumulation_round)].tolist()

    def _crop(self, raw: Raw, step: int, rows: slice) -> Batch:
        draws = transforms.draw_crops(self.split.batch_size, seeding.generator(self.seed, "crops", step)).take(rows)
        images = transforms.training(
            raw.images.to(self.device, non_blocking=True),
            raw.sizes,
            draws,
            size=self.image_size,
            scale=self.crop_scale,
            aspect=self.crop_aspect,
            flip=self.flip,
        )
        return Batch(images, raw.index)

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
