"""The decoded pictures of a source, in batches: kept in memory when they fit, else decoded on demand by worker processes."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import tee
from typing import Literal

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from openjepa.core.contracts import Source
from openjepa.core.errors import BadInput
from openjepa.data.batches import workers
from openjepa.data.batches.decoder import Decoded, Decoder, canvas_for
from openjepa.data.crops.request import Cropped, Crops, Wanted, random_crop
from openjepa.machine.progress import Track

CACHE_LIMIT = 4 * 2**30  # bytes of decoded pictures that `cache: auto` keeps in memory …
CACHE_MEMORY_SHARE = 0.25  # … and at most this share of the memory that is free now


@dataclass(frozen=True)
class Raw:
    """Some decoded pictures."""

    images: Tensor  # [B, 3, H, W] uint8
    sizes: Tensor  # [B, 2] true height and width
    index: Tensor  # [B]
    is_sound: Tensor  # [B] bool; False: the picture is broken and the next good one stands in its place
    broken: dict[str, str] = field(default_factory=dict)  # path -> reason, of pictures that were replaced
    failure: str = ""  # a sentence, when no picture could be decoded; said by the parent, not by a worker


class Pictures:
    """All pictures of a source, decoded once into memory when they fit, else on demand by worker processes."""

    def __init__(
        self,
        source: Source,
        *,
        image_size: tuple[int, int],
        crop_scale: float = 1.0,  # the smallest share of a picture that will be cropped, …
        crop_aspect: tuple[float, float] | None = None,  # … and the range of width / height; None: that of image_size
        cache: Literal["auto", "memory", "none"] = "auto",
        num_workers: int = 0,
        track: Track | None = None,
    ) -> None:
        ratio = image_size[1] / image_size[0]
        self.decoder = Decoder(source, canvas_for(source, image_size, crop_scale, crop_aspect or (ratio, ratio)))
        self.num_workers = num_workers
        self.cached: Raw | None = None
        images = getattr(source, "images", None)
        if isinstance(images, Tensor):
            self.cached = _all_of(images)
        elif cache == "memory" or (cache == "auto" and self._fits()):
            self.cached = self._decode_all(track)

    def __len__(self) -> int:
        return len(self.decoder)

    def batches(self, indices: Iterable[list[int]]) -> Iterable[Raw]:
        """One Raw for each list of indices, in order; lazily, so the lists may go on for ever."""
        if self.cached is not None:
            return (self._from_cache(torch.as_tensor(chosen)) for chosen in indices)
        return _sound(
            DataLoader(
                self.decoder,
                batch_sampler=indices,
                num_workers=self.num_workers,
                collate_fn=_collate,
                worker_init_fn=workers.start if self.num_workers else None,
                prefetch_factor=4 if self.num_workers else None,
                generator=torch.Generator(),  # or it would draw from the global one, of which nothing here depends
            )
        )

    def crops(self, wanted: Iterable[Wanted], crops: Crops, device: torch.device) -> Iterator[Cropped]:
        """-> views [B, 3, h, w] in 0 … 255, cropped on the device, for each of `wanted`, which may go on for ever."""
        ours, theirs = tee(wanted)  # workers read ahead
        raws = self.batches(batch.index.tolist() for batch in theirs)
        for batch, raw in zip(ours, raws, strict=False):
            images = raw.images.to(device, non_blocking=True)
            views = tuple(
                random_crop(images, raw.sizes, draws, crop) for crop, draws in zip(crops, batch.draws, strict=True)
            )
            yield Cropped(views, raw.index, raw.broken)

    def _from_cache(self, chosen: Tensor) -> Raw:
        assert self.cached is not None
        cached = self.cached
        return Raw(cached.images[chosen], cached.sizes[chosen], chosen, cached.is_sound[chosen], cached.broken)

    def _fits(self) -> bool:
        first = self.decoder[0]
        if first.failure:
            raise BadInput(first.failure)
        return first.image.numel() * len(self) <= memory_limit()

    def _decode_all(self, track: Track | None) -> Raw:
        source = self.decoder.source
        render = getattr(source, "render", None)
        chunks = [list(range(start, min(start + 256, len(self)))) for start in range(0, len(self), 256)]
        parts: Iterable[Raw]
        if render is not None:
            parts = (_all_of(render(chunk)[0]) for chunk in chunks)
        else:
            parts = self.batches(chunks)
        if track is not None:
            parts = track(parts, "decoding pictures into memory", len(chunks))
        return _concatenate(parts, len(self))


def memory_limit() -> float:
    """Bytes of pictures that this process may keep; those that torchrun started beside it keep their own."""
    num_processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return min(CACHE_LIMIT, CACHE_MEMORY_SHARE * _free_memory() / num_processes)


def _all_of(images: Tensor) -> Raw:
    sizes = torch.tensor(images.shape[2:]).expand(len(images), 2)
    return Raw(images, sizes, torch.arange(len(images)), torch.ones(len(images), dtype=torch.bool))


def _concatenate(parts: Iterable[Raw], num_images: int) -> Raw:
    """Into buffers allocated once: growing lists would need the memory twice."""
    images, sizes = torch.empty(0, dtype=torch.uint8), torch.empty(num_images, 2, dtype=torch.long)
    is_sound = torch.ones(num_images, dtype=torch.bool)
    broken: dict[str, str] = {}
    start = 0
    for part in parts:
        if start == 0:
            images = torch.empty(num_images, *part.images.shape[1:], dtype=torch.uint8)
        rows = slice(start, start + len(part.images))
        images[rows], sizes[rows], is_sound[rows] = part.images, part.sizes, part.is_sound
        broken |= part.broken
        start = rows.stop
    return Raw(images, sizes, torch.arange(num_images), is_sound, broken)


def _collate(items: list[Decoded]) -> Raw:
    broken: dict[str, str] = {}
    for item in items:
        broken |= item.broken
    index, failures = torch.tensor([item.index for item in items]), [item.failure for item in items if item.failure]
    if failures:
        return Raw(torch.empty(0), torch.empty(0), index, torch.empty(0), broken, failures[0])
    return Raw(
        torch.stack([item.image for item in items]),
        torch.tensor([item.size for item in items]),
        index,
        torch.tensor([not item.broken for item in items]),
        broken,
    )


def _sound(raws: Iterable[Raw]) -> Iterator[Raw]:
    for raw in raws:
        if raw.failure:
            raise BadInput(raw.failure)
        yield raw


def _free_memory() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # not a POSIX system
        return 8 * 2**30
