"""Decoded images in the cache folder, under a name made of the files' contents and of everything that decides how they decode.

One process writes, others that need the same images wait for it. The pixels are one file that is mapped, not read: all
processes of a machine share one copy. A table of the images is stored last; without it the pixels do not count.
"""

import json
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import PIL
import torch
from filelock import FileLock
from torch import Tensor

from openjepa.core.contracts import HasFiles
from openjepa.core.errors import BadInput
from openjepa.data import digests
from openjepa.data.batches import store
from openjepa.data.batches.store import ImageStore, Part
from openjepa.data.crops.crop import Crops
from openjepa.machine import cache
from openjepa.machine.console import Track

VERSION = "1"  # raise it whenever shrink_on_load.py decodes a file differently
SPARE = 1e9  # bytes of the disk that are left to others


class DoesNotFit(BadInput):
    """The decoded images are too large for the cache or the disk."""


class Mapped:
    """One file as memory, read when it is touched; pickled as its name, not its content."""

    def __init__(self, path: str, num_bytes: int) -> None:
        self.path, self.num_bytes = path, num_bytes
        self._bytes = torch.from_file(path, shared=False, size=num_bytes, dtype=torch.uint8)

    def __getitem__(self, piece: int) -> Tensor:
        return self._bytes

    def __reduce__(self) -> tuple[type["Mapped"], tuple[str, int]]:
        return Mapped, (self.path, self.num_bytes)


def name_of(source: HasFiles, crops: Crops, track: Track | None = None) -> str:
    """The name includes Pillow's version: another libjpeg may decode to other values."""
    content = digests.content_key(digests.digests(source, track=track))
    rule = " ".join(crop.rule for crop in crops)
    return cache.key("images", VERSION, PIL.__version__, rule, content)


def load(name: str, source: HasFiles) -> ImageStore | None:
    """What was written under this name, if it is complete."""
    path, tensors = cache.beside(name), cache.load(name)
    if path is None or tensors is None:
        return None
    table, num_bytes = tensors["table"], int(tensors["num_bytes"])
    if len(table) != len(source) or not path.exists() or path.stat().st_size != num_bytes:
        return None
    reasons = {int(index): reason for index, reason in json.loads(bytes(tensors["reasons"].tolist())).items()}
    try:
        mapped = Mapped(os.fspath(path), num_bytes)
    except RuntimeError:  # torch raises it if another process has deleted the file since we looked
        return None
    return ImageStore(
        pieces=mapped,
        per_piece=len(table),
        starts=store.starts_of(table),
        table=table,
        broken=store.with_paths(reasons, source),
    )


def write(name: str, source: HasFiles, crops: Crops, parts: Iterable[Part], expected: float) -> ImageStore:
    """Writes the images unless another process was quicker; only then are `parts` decoded."""
    path = cache.beside(name)
    assert path is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{name}.lock")):  # one process decodes, the others wait
        stored = load(name, source)
        if stored is None:
            _make_room(path.parent, expected)
            _write(path, name, source, crops, parts)
            stored = load(name, source)
    if stored is None:
        raise DoesNotFit(f"cannot store the decoded images in {path.parent}; try --set data.cache=none")
    return stored


def check_limit(num_bytes: float) -> None:
    """Raises if the images exceed the limit of the cache."""
    if cache.folder() is None:
        raise DoesNotFit("data.cache is disk, but OPENJEPA_CACHE is off; unset it, or use --set data.cache=none")
    if num_bytes > cache.limit():
        raise DoesNotFit(
            f"the decoded images need {num_bytes / 1e9:.3g} GB or more, and the cache may hold {cache.limit() / 1e9:.3g}; "
            "raise OPENJEPA_CACHE_GB, use a smaller data.image_size, or --set data.cache=none"
        )


def _make_room(folder: Path, expected: float) -> None:
    cache.make_room(expected)
    free = shutil.disk_usage(folder).free
    if expected > free - SPARE:
        raise DoesNotFit(
            f"the decoded images need about {expected / 1e9:.3g} GB, and {folder} has {free / 1e9:.3g} GB left; "
            "set OPENJEPA_CACHE to a folder with more, or use --set data.cache=none"
        )


def _write(path: Path, name: str, source: HasFiles, crops: Crops, parts: Iterable[Part]) -> None:
    for left in path.parent.glob(f".{path.name}.*"):
        left.unlink()  # by a process that was killed: we hold the lock, so nobody is writing it
    unfinished = cache.half_written(path)
    try:
        tables, reasons = _write_pixels(unfinished, parts)
        num_bytes = unfinished.stat().st_size
        if name_of(source, crops) != name:
            raise BadInput(
                "image files changed while they were decoded into the cache; retry once the files stop changing"
            )
        os.replace(unfinished, path)
    finally:
        with suppress(OSError):
            unfinished.unlink()
    text = torch.tensor(list(json.dumps(reasons).encode()), dtype=torch.uint8)
    cache.store(name, {"table": torch.cat(tables), "num_bytes": torch.tensor(num_bytes), "reasons": text})


def _write_pixels(path: Path, parts: Iterable[Part]) -> tuple[list[Tensor], dict[int, str]]:
    tables: list[Tensor] = []
    reasons: dict[int, str] = {}
    with path.open("wb") as file:
        for part in parts:
            file.write(part.pixels.numpy().data)
            check_limit(file.tell())
            tables.append(part.table)
            reasons |= part.reasons
        file.flush()
        os.fsync(file.fileno())  # before the table is written: a power cut must not leave a table without pixels
    return tables, reasons
