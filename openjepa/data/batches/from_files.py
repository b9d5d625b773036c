"""`FileImages`: crops of image files, decoded on demand by worker processes, or once into memory or onto the disk."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch

from openjepa.core.contracts import HasFiles
from openjepa.core.errors import BadInput
from openjepa.data.batches import disk_store, store, workers
from openjepa.data.batches.images import Cache, failure, memory_limit, this_or_next_valid, workers_of_process
from openjepa.data.batches.store import DecodedImages, ImageStore, Part
from openjepa.data.crops.crop import Cropped, CropRequest, Crops, size_to_decode
from openjepa.data.crops.per_image import CropBuffer
from openjepa.data.decode import shrink_on_load
from openjepa.data.decode.shrink_on_load import Decoded, Need, Scratch
from openjepa.machine import distributed
from openjepa.machine.cache import folder as cache_folder
from openjepa.machine.console import Track

NUM_SAMPLES = 64  # images decoded to estimate the size of all of them


class FileImages:
    def __init__(
        self,
        source: HasFiles,
        crops: Crops,
        *,
        cache: Cache = "auto",
        num_workers: int = 0,
        track: Track | None = None,
    ) -> None:
        self.source, self.crops, self.num_workers, self.track = source, crops, num_workers, track
        self.decoder = FileDecoder(source, partial(size_to_decode, crops), Scratch())
        self.store = self._open_store(cache)

    def __len__(self) -> int:
        return len(self.source)

    def batches(self, requests: Iterable[CropRequest], device: torch.device) -> Iterator[Cropped]:
        """-> views [B, 3, h, w] uint8"""
        cropper = Cropper(self.store or self.decoder, self.crops)
        # On a CPU, cropping stored images is cheaper than sending them between processes; a GPU must not wait for it.
        num_workers = 0 if self.store and device.type == "cpu" else workers_of_process(self.num_workers, device)
        broken = self.store.all_broken() if self.store else None
        for cropped in workers.each(cropper, requests, num_workers=num_workers):
            if cropped.failure:
                raise BadInput(cropped.failure)
            views = tuple(view.to(device, non_blocking=True) for view in cropped.views)
            yield replace(cropped, views=views, broken=cropped.broken if broken is None else broken)

    def _open_store(self, cache: Cache) -> ImageStore | None:
        if cache == "none":
            return None
        expected = self._expected_bytes()
        fits = cache == "memory" or (cache != "disk" and expected <= memory_limit())
        # Several processes share one copy on the disk, which one of them decodes; in memory each would decode its own.
        prefers_disk = cache == "auto" and distributed.local_processes() > 1
        if cache == "disk" or (cache == "auto" and (prefers_disk or not fits)):
            try:
                return self._on_disk(expected)
            except (disk_store.DoesNotFit, OSError):
                if cache == "disk":
                    raise
        return store.in_memory(self._parts("decoding images into memory"), self.source) if fits else None

    def _on_disk(self, expected: float) -> ImageStore:
        disk_store.check_limit(expected)  # before all files are read to compute the name
        name = disk_store.name_of(self.source, self.crops, self.track)
        stored = disk_store.load(name, self.source)
        if stored is not None:
            return stored
        parts = self._parts(f"decoding images into {cache_folder()}, about {expected / 1e9:.2g} GB")
        return disk_store.write(name, self.source, self.crops, parts, expected)

    def _parts(self, words: str) -> Iterable[Part]:
        parts = store.decode_all(self.decoder, self.num_workers)
        return parts if self.track is None else self.track(parts, words, -(-len(self) // store.CHUNK))

    def _expected_bytes(self) -> float:
        """Of all images decoded, from a sample."""
        sizes = []
        for index in range(0, len(self), max(len(self) // NUM_SAMPLES, 1)):
            image, _ = self.decoder.load(index)
            if image is not None:
                rows, columns = image.pixels.shape[:2]
                sizes.append(3 * rows * columns)
        return len(self) * sum(sizes) / max(len(sizes), 1)


@dataclass(frozen=True)
class FileDecoder:
    """Decodes the file at an index when it is loaded."""

    source: HasFiles
    needed: Need
    scratch: Scratch

    def __len__(self) -> int:
        return len(self.source)

    def load(self, index: int) -> tuple[Decoded | None, dict[str, str]]:
        return this_or_next_valid(index, len(self.source), self._decode)

    def _decode(self, index: int) -> Decoded:
        return shrink_on_load.decode(self.source.path(index), self.needed, self.scratch)


@dataclass(frozen=True)
class Cropper:
    """Work for worker processes: a request -> its crops."""

    images: DecodedImages
    crops: Crops

    def __getitem__(self, request: CropRequest) -> Cropped:
        """-> views [B, 3, h, w] uint8"""
        num_images = len(request.index)
        views = [CropBuffer(crop, draws, num_images) for crop, draws in zip(self.crops, request.draws, strict=True)]
        is_valid = torch.ones(num_images, dtype=torch.bool)
        broken: dict[str, str] = {}
        for row, index in enumerate(request.index.tolist()):
            image, skipped = self.images.load(index)
            if skipped:
                is_valid[row] = False
                broken |= skipped
            if image is None:
                return Cropped(
                    views=(), index=request.index, is_valid=is_valid, broken=broken, failure=failure(skipped)
                )
            for view in views:
                view.take(row, image)
        crops = tuple(view.images for view in views)
        return Cropped(views=crops, index=request.index, is_valid=is_valid, broken=broken)
