"""`ArrayImages`: images of arrays and of rendered scenes, cropped a whole batch at once on the device.

They are held in memory when they fit, else loaded on demand by worker processes. Somebody's own source, of which we only
know `[index]`, works too; if its images differ in size, each is cropped by itself.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import tee

import torch
from torch import Tensor

from openjepa.core.contracts import Source
from openjepa.core.errors import BadInput
from openjepa.data.abilities import is_in_memory, renders_batches
from openjepa.data.batches import workers
from openjepa.data.batches.images import Cache, failure, memory_limit, this_or_next_valid, workers_of_process
from openjepa.data.crops import batched
from openjepa.data.crops.crop import Crop, CropDraws, Cropped, CropRequest, Crops
from openjepa.machine.console import Track

CHUNK = 256  # images loaded into memory at a time
Pixels = Tensor | list[Tensor]  # [B, 3, h, w] uint8; a list of [3, h, w] if sizes differ


@dataclass(frozen=True)
class Loaded:
    images: Pixels
    is_valid: Tensor  # [B] bool
    broken: dict[str, str] = field(default_factory=dict)  # path -> reason
    failure: str = ""  # a message when no image could be decoded


class ArrayImages:
    def __init__(
        self,
        source: Source,
        crops: Crops,
        *,
        cache: Cache = "auto",
        num_workers: int = 0,
        track: Track | None = None,
    ) -> None:
        self.reader, self.crops = Reader(source), crops
        # A process costs more than it saves on rendered batches, and a plain script cannot start one by spawning.
        self.num_workers = 0 if renders_batches(source) else num_workers
        self.memory = self._load(source, cache, track)

    def __len__(self) -> int:
        return len(self.reader.source)

    def batches(self, requests: Iterable[CropRequest], device: torch.device) -> Iterator[Cropped]:
        """-> views [B, 3, h, w] float, or uint8 where a crop keeps the image as it is."""
        ours, theirs = tee(requests)  # workers read ahead
        for request, loaded in zip(ours, self._loaded((batch.index for batch in theirs), device), strict=False):
            images = _to(loaded.images, device)
            pairs = zip(self.crops, request.draws, strict=True)
            views = tuple(crop_images(images, crop, draws) for crop, draws in pairs)
            yield Cropped(views=views, index=request.index, is_valid=loaded.is_valid, broken=loaded.broken)

    def _loaded(self, indices: Iterable[Tensor], device: torch.device) -> Iterator[Loaded]:
        if self.memory is not None:
            return (_rows(self.memory, index) for index in indices)
        num_workers = workers_of_process(self.num_workers, device)
        return _checked(workers.each(self.reader, indices, num_workers=num_workers))

    def _load(self, source: Source, cache: Cache, track: Track | None) -> Loaded | None:
        if is_in_memory(source):
            return _all_valid(source.images)
        if cache == "none" or (cache != "memory" and not self._fits()):
            return None
        chunks = torch.arange(len(self)).split(CHUNK)
        parts: Iterable[Loaded] = _checked(workers.each(self.reader, chunks, num_workers=self.num_workers))
        if track is not None:
            parts = track(parts, "loading images into memory", len(chunks))
        return _joined(parts, len(self), is_one_size=renders_batches(source))

    def _fits(self) -> bool:
        first = next(_checked([self.reader[torch.tensor([0])]]))
        return first.images[0].numel() * len(self) <= memory_limit()


@dataclass(frozen=True)
class Reader:
    """Work for worker processes: index [B] -> the images."""

    source: Source

    def __getitem__(self, index: Tensor) -> Loaded:
        if renders_batches(self.source):
            return _all_valid(self.source.render(index.tolist())[0])
        images, is_valid = [], []
        broken: dict[str, str] = {}
        for position in index.tolist():
            image, skipped = this_or_next_valid(position, len(self.source), self._image)
            broken |= skipped
            if image is None:
                return Loaded([], torch.empty(0), broken, failure(skipped))
            images.append(image)
            is_valid.append(not skipped)
        return Loaded(_stacked(images), torch.tensor(is_valid), broken)

    def _image(self, index: int) -> Tensor:
        return self.source[index].image


def crop_images(images: Pixels, crop: Crop, draws: CropDraws) -> Tensor:
    """-> [B, 3, h, w] in 0 … 255"""
    if isinstance(images, list):
        singles = (image[None] for image in images)
        return torch.cat([crop_images(one, crop, draws.take(slice(row, row + 1))) for row, one in enumerate(singles)])
    height, width = images.shape[2:]
    if crop.leaves_unchanged((height, width)):
        return images
    sizes = torch.tensor([height, width]).expand(len(images), 2)
    return batched.crop_resize(images, crop.boxes(draws, sizes), crop.size, crop.flips(draws))


def _all_valid(images: Tensor) -> Loaded:
    return Loaded(images, torch.ones(len(images), dtype=torch.bool))


def _rows(loaded: Loaded, index: Tensor) -> Loaded:
    if isinstance(loaded.images, Tensor):
        images: Pixels = loaded.images[index]
    else:
        images = _stacked([loaded.images[row] for row in index.tolist()])
    return replace(loaded, images=images, is_valid=loaded.is_valid[index])


def _stacked(images: list[Tensor]) -> Pixels:
    return torch.stack(images) if len({image.shape for image in images}) == 1 else images


def _to(images: Pixels, device: torch.device) -> Pixels:
    if isinstance(images, Tensor):
        return images.to(device, non_blocking=True)
    return [image.to(device, non_blocking=True) for image in images]


def _joined(parts: Iterable[Loaded], num_images: int, *, is_one_size: bool) -> Loaded:
    """Images of one size go into memory allocated once: growing lists would need the memory twice."""
    images: Pixels = []
    is_valid = torch.ones(num_images, dtype=torch.bool)
    broken: dict[str, str] = {}
    start = 0
    for part in parts:
        rows = slice(start, start + len(part.is_valid))
        if isinstance(images, list) and is_one_size:
            images = torch.empty(num_images, *part.images[0].shape, dtype=torch.uint8)
        if isinstance(images, list):
            images += [image.clone() for image in part.images]  # out of the memory shared with a worker
        else:
            assert isinstance(part.images, Tensor)
            images[rows] = part.images
        is_valid[rows] = part.is_valid
        broken |= part.broken
        start = rows.stop
    return Loaded(images, is_valid, broken)


def _checked(parts: Iterable[Loaded]) -> Iterator[Loaded]:
    for part in parts:
        if part.failure:
            raise BadInput(part.failure)
        yield part
