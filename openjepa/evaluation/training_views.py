"""What fine-tuning learns from: random crops, flips and RandAugment of labelled images, epoch after epoch."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import tee

import torch
from torch import Tensor

from openjepa.core import seeding
from openjepa.data.batches.images import Images
from openjepa.data.crops import batched
from openjepa.data.crops.crop import CropRequest, draw_crops
from openjepa.data.crops.randaugment import RandAugment

CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class Views:
    """What one step learns from."""

    step: int
    images: Tensor  # [B, 3, h, w] normalised
    labels: Tensor  # [B]
    is_valid: Tensor  # [B] bool; False: another image replaces a broken one, so the label is not its own


@dataclass(frozen=True, kw_only=True)
class Stream:
    """The views of every step in one stream, so that worker processes are started once."""

    epochs: int
    batch_size: int
    augment: bool
    seed: int

    def steps_per_epoch(self, num_images: int) -> int:
        return math.ceil(num_images / self.batch_size)

    def views(self, images: Images, index: Tensor, labels: Tensor) -> Iterator[Views]:
        """index [S] in the source, labels [S] their classes."""
        ours, theirs = tee(self._rows(len(index)))  # workers read ahead
        batches = images.batches((self._request(index[rows], step) for step, rows in enumerate(theirs)), CPU)
        for step, (rows, batch) in enumerate(zip(ours, batches, strict=True)):
            finished = self._finished(batch.views[0], step)
            yield Views(step=step, images=finished, labels=labels[rows], is_valid=batch.is_valid)

    def _request(self, index: Tensor, step: int) -> CropRequest:
        return CropRequest(index, (draw_crops(len(index), seeding.generator(self.seed, "finetune crops", step)),))

    def _finished(self, crops: Tensor, step: int) -> Tensor:
        """[B, 3, h, w] in 0 … 255 -> [B, 3, h, w] normalised, after RandAugment."""
        if self.augment:
            generator = seeding.generator(self.seed, "finetune augmentation", step)
            crops = RandAugment()(crops.float().round().clamp(0, 255).byte(), generator).float()
        return batched.normalise(crops)

    def _rows(self, num_images: int) -> Iterator[Tensor]:
        """Batches of one size (± 1), at most `batch_size`: every image is seen once an epoch, none is dropped."""
        for epoch in range(self.epochs):
            order = torch.randperm(num_images, generator=seeding.generator(self.seed, "finetune order", epoch))
            yield from order.tensor_split(self.steps_per_epoch(num_images))
