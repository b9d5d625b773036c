"""Images per second from a folder of JPEG files to training batches, beside plain Pillow, in one run.

Plain is what a data set class usually does: open, convert, crop and resize with Pillow, to a float tensor, normalise, stack.
Both get the same files, the same crops and the same number of processes, and take turns.
"""

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from openjepa.benchmarks.timer import seconds_of
from openjepa.core.config import DataConfig
from openjepa.core.contracts import HasFiles
from openjepa.data.abilities import has_files
from openjepa.data.batches import workers
from openjepa.data.batches.from_files import FileImages
from openjepa.data.batches.loader import Loader
from openjepa.data.batches.order import Order, Split
from openjepa.data.crops import batched
from openjepa.data.crops.crop import CropRequest, RandomCrop
from openjepa.data.open import open_source

HEIGHT, WIDTH = 480, 640
QUALITY = 90
ROUNDS = 5


def run(*, num_images: int, sizes: list[int], num_workers: int, batch_size: int) -> list[dict[str, Any]]:
    """One row per crop size."""
    with tempfile.TemporaryDirectory(prefix="openjepa-bench-") as name, _cache_in(Path(name) / "cache"):
        folder = Path(name) / "photos"
        num_bytes = write_photos(folder, num_images)
        source = open_source(str(folder))
        assert has_files(source)
        rows = [_row(source, size, num_workers, min(batch_size, num_images)) for size in sizes]
    return [{**row, "kB a file": round(num_bytes / num_images / 1e3)} for row in rows]


def _row(source: HasFiles, size: int, num_workers: int, batch_size: int) -> dict[str, Any]:
    defaults = DataConfig()
    crop = RandomCrop(size=(size, size), scale=defaults.crop_scale, aspect=defaults.crop_aspect)
    order = Order(len(source), batch_size, seed=0)
    on_demand = FileImages(source, (crop,), cache="none", num_workers=num_workers)
    stored = FileImages(source, (crop,), cache="disk")
    loaders = [
        Loader(images, order, Split(batch_size=batch_size), 0, 0.0, torch.device("cpu"))
        for images in (on_demand, stored)
    ]
    plain_epoch = partial(_plain_epoch, loaders[0], Plain(source, crop), num_workers)
    ways = [plain_epoch, *(partial(_epoch, loader) for loader in loaders)]
    plain, ours, cached = (order.steps_per_epoch * batch_size / seconds for seconds in _medians(ways))
    return {
        "size": size,
        "batch": batch_size,
        "workers": num_workers,
        "plain Pillow, images/s": round(plain, 1),
        "openjepa, images/s": round(ours, 1),
        "ratio": round(ours / plain, 2),
        "from the disk cache, images/s": round(cached, 1),
        "ratio of that": round(cached / plain, 2),
    }


def _medians(ways: Sequence[Callable[[], object]]) -> list[float]:
    """Seconds of each way; they take turns, so that other load on the machine affects all alike."""
    rounds = [[seconds_of(way) for way in ways] for _ in range(ROUNDS + 1)][1:]  # the first fills caches
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def _epoch(loader: Loader) -> None:
    batches = loader.batches(0)
    for _ in range(loader.order.steps_per_epoch):
        next(batches)


def _plain_epoch(loader: Loader, plain: "Plain", num_workers: int) -> None:
    requests = islice(loader.requests(0), loader.order.steps_per_epoch)
    for _ in workers.each(plain, list(requests), num_workers=num_workers):
        pass


@dataclass(frozen=True)
class Plain:
    source: HasFiles
    crop: RandomCrop

    def __getitem__(self, request: CropRequest) -> Tensor:
        """-> [B, 3, h, w]"""
        sizes = torch.tensor([[HEIGHT, WIDTH]]).expand(len(request.index), 2)
        boxes = self.crop.boxes(request.draws[0], sizes).tolist()
        pairs = zip(request.index.tolist(), boxes, strict=True)
        return torch.stack([self._view(self.source.path(index), box) for index, box in pairs])

    def _view(self, path: Path, box: list[float]) -> Tensor:
        top, left, height, width = box
        with Image.open(path) as opened:
            image = opened.convert("RGB")
        corners = (left, top, min(left + width, WIDTH), min(top + height, HEIGHT))
        view = image.resize(self.crop.size[::-1], Image.Resampling.BILINEAR, box=corners)
        x = torch.from_numpy(np.array(view)).permute(2, 0, 1).contiguous().float() / 255  # [3, h, w]
        mean, std = (torch.tensor(values)[:, None, None] for values in (batched.MEAN, batched.STD))
        return (x - mean) / std


def write_photos(folder: Path, number: int) -> int:
    """Bytes in all. Smooth colours, discs with edges and some grain: about as many bytes as a photo of this size."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    for index in range(number):
        _photo(random).save(folder / f"{index:05d}.jpg", quality=QUALITY)
    return sum(path.stat().st_size for path in folder.iterdir())


def _photo(random: np.random.Generator) -> Image.Image:
    pixels = np.full((HEIGHT, WIDTH, 3), 120.0, dtype=np.float32)
    for columns, contrast in ((4, 70), (12, 40), (40, 25), (160, 14)):  # coarse to fine
        pixels += contrast * _clouds(random, columns)[:, :, None] * random.uniform(0.6, 1.2, 3)
    down, across = np.ogrid[:HEIGHT, :WIDTH]
    for _ in range(14):
        x, y, radius = random.uniform(0, WIDTH), random.uniform(0, HEIGHT), random.uniform(15, 140)
        pixels[(down - y) ** 2 + (across - x) ** 2 < radius**2] += random.uniform(-70, 70, 3)
    pixels += 3 * random.standard_normal((HEIGHT, WIDTH, 1))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def _clouds(random: np.random.Generator, columns: int) -> np.ndarray:
    """-> [h, w]: noise of so many columns, enlarged."""
    small = Image.fromarray(random.standard_normal((columns * 3 // 4, columns)).astype(np.float32))
    return np.asarray(small.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC))


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    """The user's own cache is neither filled nor read."""
    names = {"OPENJEPA_CACHE": str(folder), "OPENJEPA_CACHE_GB": "1000"}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
