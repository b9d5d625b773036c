"""Multi-crop: two large views of an image and several small ones (SwAV, then DINO, iBOT, MSN)."""

from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from openjepa.core.numbers import Positive, Share
from openjepa.core.types import Augmentation
from openjepa.models.vit import VisionTransformer

NUM_GLOBAL = 2  # large views, which come first
LOCAL_SIDE = 96 / 224  # of a small view, as published


@dataclass(frozen=True)
class MultiCrop:
    num_local: Annotated[int, Field(ge=0)] = 8
    global_scale: tuple[float, float] = (0.4, 1.0)
    local_scale: tuple[float, float] = (0.05, 0.4)
    local_size: Positive | None = None  # pixels; None: 3/7 of the image, in whole patches
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.2, 0.1)
    blur: tuple[Share, Share, Share] = (1.0, 0.1, 0.5)  # of the first, the second and the small views
    solarise: Share = 0.2  # of the second
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, never changed

    def completed(self, encoder: VisionTransformer) -> "MultiCrop":
        patches = round(LOCAL_SIDE * min(encoder.grid))
        return replace(self, local_size=self.local_size or max(patches, 1) * encoder.patch_size)

    def views(self, encoder: VisionTransformer) -> tuple[Augmentation, ...]:
        """Two large ones, then `num_local` small ones."""
        side = self.completed(encoder).local_size
        assert side is not None
        large = Augmentation(encoder.image_size, self.global_scale, jitter=self.jitter)
        small = Augmentation((side, side), self.local_scale, jitter=self.jitter, blur_chance=self.blur[2])
        first = replace(large, blur_chance=self.blur[0])
        second = replace(large, blur_chance=self.blur[1], solarise_chance=self.solarise)
        return (first, second, *[small] * self.num_local)
