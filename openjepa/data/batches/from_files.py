"""The crops of a source of picture files: decoded on demand by worker processes, or once, and kept in memory or on disk."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Literal

import torch

from openjepa.core.errors import BadInput
from openjepa.data.batches import disk_store, store, workers
from openjepa.data.batches.from_arrays import memory_limit
from openjepa.data.batches.store import Kept, Part
from openjepa.data.crops.per_image import Cropper, OnDemand, Reducible
from openjepa.data.crops.request import Cropped, Crops, Wanted, largest_need
from openjepa.data.decode.scratch import Scratch
from openjepa.machine.cache import folder as cache_folder
from openjepa.machine.progress import Track

NUM_SAMPLES = 64  # pictures decoded to guess what all of them need

Cache = Literal["auto", "memory", "disk", "none"]


class Files:
    def __init__(
        self,
        source: Reducible,
        crops: Crops,
        *,
        cache: Cache = "auto",
        num_workers: int = 0,
        track: Track | None = None,
    ) -> None:
        self.source, self.needed_crops, self.num_workers, self.track = source, crops, num_workers, track
        self.on_demand = OnDemand(source, partial(largest_need, crops), Scratch())
        self.kept = self._keep(cache)

    def __len__(self) -> int:
        return len(self.source)

    def crops(self, wanted: Iterable[Wanted], crops: Crops, device: torch.device) -> Iterator[Cropped]:
        """-> views [B, 3, h, w] uint8, for each of `wanted`, which may go on for ever."""
        cropper = Cropper(self.kept or self.on_demand, crops)
        # Cutting kept pictures costs a processor less than handing them over, and a GPU should not wait for it.
        num_workers = 0 if self.kept and device.type == "cpu" else self.num_workers
        for cropped in workers.each(cropper, wanted, num_workers=num_workers):
            if cropped.failure:
                raise BadInput(cropped.failure)
            views = tuple(view.to(device, non_blocking=True) for view in cropped.views)
            yield replace(cropped, views=views, broken=self.kept.broken if self.kept else cropped.broken)

    def _keep(self, cache: Cache) -> Kept | None:
        if cache == "none":
            return None
        expected = self._expected_bytes()
        if cache == "memory" or (cache == "auto" and expected <= memory_limit()):
            return store.in_memory(self._parts("decoding pictures into memory"), self.source)
        try:
            return self._on_disk(expected)
        except (disk_store.DoesNotFit, OSError):
            if cache == "disk":
                raise
            return None

    def _on_disk(self, expected: float) -> Kept:
        disk_store.check_limit(expected)  # before all files are read to find out their name
        name = disk_store.name_of(self.source, self.needed_crops, self.track)
        found = disk_store.load(name, self.source)
        if found is not None:
            return found
        parts = self._parts(f"decoding pictures into {cache_folder()}, about {expected / 1e9:.2g} GB")
        return disk_store.write(name, self.source, self.needed_crops, parts, expected)

    def _parts(self, words: str) -> Iterable[Part]:
        parts = store.decoded(self.on_demand, self.num_workers)
        return parts if self.track is None else self.track(parts, words, -(-len(self) // store.CHUNK))

    def _expected_bytes(self) -> float:
        """Of all pictures decoded, from a sample."""
        sizes = []
        for index in range(0, len(self), max(len(self) // NUM_SAMPLES, 1)):
            picture, _ = self.on_demand.find(index)
            if picture is not None:
                rows, columns = picture.pixels.shape[:2]
                sizes.append(3 * rows * columns)
        return len(self) * sum(sizes) / max(len(sizes), 1)
