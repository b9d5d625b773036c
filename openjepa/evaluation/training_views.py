"""What fine-tuning learns from: random crops, flips and RandAugment of labelled pictures, epoch after epoch."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import tee

import torch
from torch import Tensor

from openjepa.core import seeding
from openjepa.data.batches.from_arrays import Pictures, Raw
from openjepa.data.crops import batched
from openjepa.data.crops.evaluation import VIEW_ASPECT, VIEW_SCALE, Preparation
from openjepa.data.crops.randaugment import RandAugment


@dataclass(frozen=True)
class Views:
    """What one step learns from."""

    step: int
    images: Tensor  # [B, 3, h, w] normalised
    labels: Tensor  # [B]
    is_sound: Tensor  # [B] bool; False: another picture stands in for a broken one, so the label is not its own


@dataclass(frozen=True, kw_only=True)
class Stream:
    """The views of every step in one stream, so that worker processes are started once."""

    epochs: int
    batch_size: int
    augment: bool
    seed: int

    def steps_per_epoch(self, num_pictures: int) -> int:
        return math.ceil(num_pictures / self.batch_size)

    def views(self, pictures: Pictures, index: Tensor, labels: Tensor, preparation: Preparation) -> Iterator[Views]:
        """index [S] are places in the source, labels [S] their classes."""
        ours, theirs = tee(self._rows(len(index)))  # workers read ahead
        raws = pictures.batches(index[rows].tolist() for rows in theirs)
        for step, (rows, raw) in enumerate(zip(ours, raws, strict=True)):
            yield Views(step, self.prepared(raw, preparation, step), labels[rows], raw.is_sound)

    def prepared(self, raw: Raw, preparation: Preparation, step: int) -> Tensor:
        """-> [B, 3, h, w] normalised: a random crop (or the whole picture squeezed), a flip, RandAugment."""
        draws = batched.draw_crops(len(raw.images), seeding.generator(self.seed, "finetune crops", step))
        if preparation.squeeze:
            boxes = batched.whole_boxes(raw.sizes)
        else:
            boxes = batched.crop_boxes(draws, raw.sizes, scale=VIEW_SCALE, aspect=VIEW_ASPECT)
        images = batched.cut(raw.images, raw.sizes, boxes, preparation.size, draws.flip < 0.5)
        if self.augment:
            generator = seeding.generator(self.seed, "finetune augmentation", step)
            images = RandAugment()(images.round().clamp(0, 255).byte(), generator).float()
        return batched.normalise(images)

    def _rows(self, num_pictures: int) -> Iterator[Tensor]:
        """Batches of one size (± 1), at most `batch_size`: every picture is seen once an epoch, none is dropped."""
        for epoch in range(self.epochs):
            order = torch.randperm(num_pictures, generator=seeding.generator(self.seed, "finetune order", epoch))
            yield from order.tensor_split(self.steps_per_epoch(num_pictures))
