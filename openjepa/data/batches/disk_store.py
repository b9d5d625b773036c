"""Decoded pictures in the cache folder, under a name made of the files' contents and of all that decides what is decoded.

One process writes, others that want the same wait for it. The pixels lie in one file that is mapped, not read: all processes
of a machine share one copy. A table of the pictures is stored last; without it the pixels do not count.
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

from openjepa.core.errors import BadInput
from openjepa.data import digests
from openjepa.data.batches import store
from openjepa.data.batches.store import Kept, Part
from openjepa.data.crops.per_image import Reducible
from openjepa.data.crops.request import Crops
from openjepa.machine import cache
from openjepa.machine.progress import Track

VERSION = "1"  # of what reduced.py makes of a file; another one, another name
SPARE = 1e9  # bytes of the disk that are left to others


class DoesNotFit(BadInput):
    """The decoded pictures are too much for the cache or the disk."""


class Mapped:
    """One file as memory, read when it is touched; to another process travels its name, not its content."""

    def __init__(self, path: str, num_bytes: int) -> None:
        self.path, self.num_bytes = path, num_bytes
        self._bytes = torch.from_file(path, shared=False, size=num_bytes, dtype=torch.uint8)

    def __getitem__(self, piece: int) -> Tensor:
        return self._bytes

    def __reduce__(self) -> tuple[type["Mapped"], tuple[str, int]]:
        return Mapped, (self.path, self.num_bytes)


def name_of(source: Reducible, crops: Crops, track: Track | None = None) -> str:
    """Pillow's version belongs to it: another libjpeg may decode to other values."""
    content = digests.content_key(digests.digests(source, track=track))
    rule = " ".join(f"{crop.size} {crop.scale[0]} {crop.aspect}" for crop in crops)  # what their needs depend on
    return cache.key("pictures", VERSION, PIL.__version__, rule, content)


def load(name: str, source: Reducible) -> Kept | None:
    """What was written under this name, if it is whole."""
    path, found = cache.beside(name), cache.load(name)
    if path is None or found is None:
        return None
    table, num_bytes = found["table"], int(found["num_bytes"])
    if len(table) != len(source) or not path.exists() or path.stat().st_size != num_bytes:
        return None
    reasons = {int(place): reason for place, reason in json.loads(bytes(found["reasons"].tolist())).items()}
    try:
        mapped = Mapped(os.fspath(path), num_bytes)
    except RuntimeError:  # torch's word for a file that another process has deleted since we looked
        return None
    return Kept(mapped, len(table), store.starts_of(table), table, store.by_path(reasons, source))


def write(name: str, source: Reducible, crops: Crops, parts: Iterable[Part], expected: float) -> Kept:
    """Unless another process was quicker; `parts` are only asked for when they are needed."""
    path = cache.beside(name)
    assert path is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{name}.lock")):  # one process decodes, the others wait
        found = load(name, source)
        if found is None:
            _make_room(path.parent, expected)
            _write(path, name, source, crops, parts)
            found = load(name, source)
    if found is None:
        raise DoesNotFit(f"the decoded pictures could not be kept in {path.parent}; try --set data.cache=none")
    return found


def check_limit(num_bytes: float) -> None:
    """Refuses what the cache may not hold."""
    if cache.folder() is None:
        raise DoesNotFit("data.cache is disk, but OPENJEPA_CACHE is off; unset it, or use --set data.cache=none")
    if num_bytes > cache.limit():
        raise DoesNotFit(
            f"the decoded pictures need {num_bytes / 1e9:.3g} GB or more, and the cache may hold {cache.limit() / 1e9:.3g}; "
            "raise OPENJEPA_CACHE_GB, use a smaller data.image_size, or --set data.cache=none"
        )


def _make_room(place: Path, expected: float) -> None:
    cache.make_room(expected)
    free = shutil.disk_usage(place).free
    if expected > free - SPARE:
        raise DoesNotFit(
            f"the decoded pictures need about {expected / 1e9:.3g} GB, and {place} has {free / 1e9:.3g} GB left; "
            "set OPENJEPA_CACHE to a folder with more, or use --set data.cache=none"
        )


def _write(path: Path, name: str, source: Reducible, crops: Crops, parts: Iterable[Part]) -> None:
    for left in path.parent.glob(f".{path.name}.*"):
        left.unlink()  # by a process that was killed: we hold the lock, so nobody is writing it
    unfinished = cache.half_written(path)
    try:
        tables, reasons = _write_pixels(unfinished, parts)
        num_bytes = unfinished.stat().st_size
        if name_of(source, crops) != name:
            raise BadInput("pictures were changed while they were decoded into the cache; start again when they rest")
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
        os.fsync(file.fileno())  # the table must not outlive a power cut that the pixels did not
    return tables, reasons
