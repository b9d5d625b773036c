"""Decoded pictures of one size, by index: what batches are made of.

Pictures of different sizes are stretched to a common canvas, large enough that no crop has to be enlarged more than it
would have been from the original; their true sizes travel along so that crops keep true proportions. A picture that cannot
be decoded is replaced by the next one that can, always the same one, and remembered with its reason.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from openjepa.core.contracts import Source
from openjepa.core.errors import BadInput, BrokenImage
from openjepa.data import workers

T = TypeVar("T")
Track = Callable[[Iterable[T], str, int], Iterable[T]]  # draws a progress bar: items, words, how many
CACHE_LIMIT = 4 * 2**30  # bytes of decoded pictures that `cache: auto` keeps in memory …
CACHE_MEMORY_SHARE = 0.25  # … and at most this share of the memory that is free now
NUM_SIZE_SAMPLES = 64  # pictures looked at to choose the canvas
MAX_NEIGHBOURS = 1000  # broken pictures in a row before giving up


@runtime_checkable
class Scalable(Protocol):
    """A source of pictures of any size that can decode straight to a wanted size."""

    def scaled(self, index: int, size: tuple[int, int]) -> tuple[Tensor, tuple[int, int]]:
        """-> image [3, h, w] uint8 stretched to `size`, and the picture's true (height, width)."""
        ...

    def true_size(self, index: int) -> tuple[int, int]: ...


@dataclass(frozen=True)
class Raw:
    """Some decoded pictures."""

    images: Tensor  # [B, 3, H, W] uint8
    sizes: Tensor  # [B, 2] true height and width
    index: Tensor  # [B]
    is_sound: Tensor  # [B] bool; False: the picture is broken and the next good one stands in its place
    broken: dict[str, str] = field(default_factory=dict)  # path -> reason, of pictures that were replaced
    failure: str = ""  # a sentence, when no picture could be decoded; said by the parent, not by a worker


@dataclass(frozen=True)
class Decoded:
    image: Tensor  # [3, H, W] uint8
    size: tuple[int, int]
    index: int
    broken: dict[str, str]
    failure: str = ""


@dataclass(frozen=True)
class Decoder(Dataset):
    """Map-style, for worker processes: index -> one decoded picture, or the next one that can be decoded."""

    source: Source
    canvas: tuple[int, int] | None  # None: the source's own size

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Decoded:
        broken: dict[str, str] = {}
        for neighbour in range(min(len(self.source), MAX_NEIGHBOURS)):
            try:
                image, size = self._decode((index + neighbour) % len(self.source))
                return Decoded(image, size, index, broken)
            except BrokenImage as error:
                broken[error.path] = error.reason
        path, reason = next(iter(broken.items()))
        return Decoded(
            torch.empty(0),
            (0, 0),
            index,
            broken,
            failure=(
                f"{len(broken)} pictures in a row cannot be decoded, the first is {path} ({reason}); "
                "look at them with openjepa data check"
            ),
        )

    def _decode(self, index: int) -> tuple[Tensor, tuple[int, int]]:
        if self.canvas is not None and isinstance(self.source, Scalable):
            return self.source.scaled(index, self.canvas)
        image = self.source[index].image
        return image, (image.shape[1], image.shape[2])


def canvas_for(
    source: Source, image_size: tuple[int, int], crop_scale: float, crop_aspect: tuple[float, float]
) -> tuple[int, int] | None:
    """The common size to decode to, or None when the source's pictures are all of one size anyway."""
    if not isinstance(source, Scalable):
        return None
    needed = []
    for index in range(0, len(source), max(len(source) // NUM_SIZE_SAMPLES, 1)):
        try:
            needed.append(_needed_for(source.true_size(index), image_size, crop_scale, crop_aspect))
        except BrokenImage:
            continue
    heights, widths = zip(*needed, strict=True) if needed else ((image_size[0],), (image_size[1],))
    return max(heights), max(widths)


def _needed_for(
    true: tuple[int, int], image_size: tuple[int, int], crop_scale: float, crop_aspect: tuple[float, float]
) -> tuple[int, int]:
    """The canvas on which the smallest crop of a picture still has as many pixels as it will be resized to, if it had them."""
    height, width = true
    area = crop_scale * height * width
    crop_height = min(math.sqrt(area / crop_aspect[1]), height, width / crop_aspect[1])
    crop_width = min(math.sqrt(area * crop_aspect[0]), width, height * crop_aspect[0])
    rows, columns = image_size[0] * height / crop_height, image_size[1] * width / crop_width
    return min(height, math.ceil(rows)), min(width, math.ceil(columns))


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
            )
        )

    def _from_cache(self, chosen: Tensor) -> Raw:
        assert self.cached is not None
        cached = self.cached
        return Raw(cached.images[chosen], cached.sizes[chosen], chosen, cached.is_sound[chosen], cached.broken)

    def _fits(self) -> bool:
        first = self.decoder[0]
        if first.failure:
            raise BadInput(first.failure)
        needed = first.image.numel() * len(self)
        num_processes = int(
            os.environ.get("LOCAL_WORLD_SIZE", "1")
        )  # of torchrun on this machine; each keeps its own copy
        return needed <= min(CACHE_LIMIT, CACHE_MEMORY_SHARE * _free_memory() / num_processes)

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
