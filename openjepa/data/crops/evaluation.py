"""How a decoded picture becomes what an encoder sees in an evaluation: a fixed crop, or one of several random ones."""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from openjepa.core import seeding
from openjepa.core.contracts import Source
from openjepa.data.batches.from_arrays import Pictures, Raw
from openjepa.data.crops import batched
from openjepa.machine.progress import Track

# Of the random views, as in the linear probes of I-JEPA and MAE: RandomResizedCrop's defaults, and flips.
VIEW_SCALE = (0.08, 1.0)
VIEW_ASPECT = (3 / 4, 4 / 3)


@dataclass(frozen=True)
class Preparation:
    size: tuple[int, int]  # height and width
    crop: float = 1.0  # side of the centred crop beside the largest possible one; "resize 256, crop 224" is 0.875
    squeeze: bool = False  # the whole picture, proportions changed, as VISSL does with CLEVR
    view: int = 0  # 0: the fixed crop; 1, 2, …: random crops and flips, each a function of (view, place in the source)

    def __call__(self, raw: Raw, num_pictures: int) -> Tensor:
        """-> [B, 3, h, w] normalised; `num_pictures` is the length of the whole source."""
        if self.view == 0 and self._is_whole(raw):
            return batched.normalise(raw.images)
        flip = self._draws(raw, num_pictures).flip < 0.5 if self.view else None
        boxes = self._boxes(raw, num_pictures)
        return batched.normalise(batched.cut(raw.images, raw.sizes, boxes, self.size, flip))

    def pictures(self, source: Source, *, num_workers: int = 0, track: Track | None = None) -> Pictures:
        """Those of a source, decoded as they come and large enough that no crop is enlarged more than the original asks for.

        Drawn pictures go through memory: in batches they are far cheaper.
        """
        height, width = (math.ceil(side / self.crop) for side in self.size)
        is_random = self.view > 0 and not self.squeeze
        return Pictures(
            source,
            image_size=(height, width),
            crop_scale=VIEW_SCALE[0] if is_random else 1.0,
            crop_aspect=VIEW_ASPECT if is_random else None,
            cache="auto" if hasattr(source, "render") else "none",
            num_workers=num_workers,
            track=track,
        )

    def describe(self) -> str:
        """In words that differ whenever what an encoder sees differs: they are part of the key of cached features."""
        size = f"{self.size[0]}×{self.size[1]}"
        flips = f", flips, view {self.view}" if self.view else ""
        if self.squeeze:
            return f"squeezed to {size}{flips}"
        if self.view:
            return f"random crops to {size}{flips}"
        return f"largest centre crop, {size}" if self.crop == 1 else f"{self.crop:g} of the centre crop, {size}"

    def _boxes(self, raw: Raw, num_pictures: int) -> Tensor:
        """-> [B, 4] top, left, height, width in pixels of the true pictures."""
        if self.squeeze:
            return batched.whole_boxes(raw.sizes)
        if self.view:
            return batched.crop_boxes(self._draws(raw, num_pictures), raw.sizes, scale=VIEW_SCALE, aspect=VIEW_ASPECT)
        ratio = self.size[1] / self.size[0]
        boxes = batched.centre_boxes(raw.sizes, aspect=(ratio, ratio))
        inner = boxes[:, 2:] * self.crop
        return torch.cat([boxes[:, :2] + (boxes[:, 2:] - inner) / 2, inner], dim=1)

    def _draws(self, raw: Raw, num_pictures: int) -> batched.CropDraws:
        return _draws_for(self.view, num_pictures).take(raw.index)

    def _is_whole(self, raw: Raw) -> bool:
        """The pictures are already of the right size: resampling them would change nothing but the time it takes."""
        is_native = tuple(raw.images.shape[2:]) == self.size and bool((raw.sizes == torch.tensor(self.size)).all())
        return is_native and (self.crop == 1 or self.squeeze)


@lru_cache(maxsize=1)
def _draws_for(view: int, num_pictures: int) -> batched.CropDraws:
    return batched.draw_crops(num_pictures, seeding.generator(0, "evaluation views", view))
