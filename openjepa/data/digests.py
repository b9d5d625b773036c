"""Which picture is it? A digest of its bytes (files) or pixels (arrays), for finding the same picture in two sets.

The same photo saved in another format or at another size has another digest: only exact copies are found.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from openjepa.core.contracts import Source
from openjepa.core.errors import BrokenImage
from openjepa.machine import cache
from openjepa.machine.progress import Track

LENGTH = 32  # bytes of a sha256
CHUNK = 1024  # pictures handed to the threads at a time


@runtime_checkable
class FileSource(Protocol):
    """A source whose pictures are files."""

    def path(self, index: int) -> Path: ...


@runtime_checkable
class Described(Protocol):
    """A source that knows what makes a picture what it is without drawing it."""

    def identity(self, index: int) -> str: ...


def digests(
    source: Source, index: Tensor | None = None, *, track: Track | None = None, uses_cache: bool = True
) -> Tensor:
    """-> [S, 32] uint8, a digest of each picture, or of those at places index [S]. Files are read once, until they change."""
    places = range(len(source)) if index is None else index.tolist()
    if not isinstance(source, FileSource) or not uses_cache:
        return _digests(source, places, track if isinstance(source, FileSource) else None)
    found = remembered(source, places)
    if found is None:
        found = _digests(source, places, track)
        cache.store(_memory_key(source, places), {"digests": found})
    return found


def remembered(source: FileSource, places: Sequence[int]) -> Tensor | None:
    """The digests of files that were read before and have not changed since, or None."""
    known = cache.load(_memory_key(source, places))
    return None if known is None or known["digests"].shape != (len(places), LENGTH) else known["digests"]


def _memory_key(source: FileSource, places: Sequence[int]) -> str:
    return cache.key("digests", *(_state(source.path(place)) for place in places))


def content_key(found: Tensor) -> str:
    """[S, 32] -> a name for these pictures in this order."""
    return hashlib.sha256(found.contiguous().numpy().tobytes()).hexdigest()


def occur_in(found: Tensor, others: Tensor) -> Tensor:
    """[S, 32], [R, 32] -> [S] bool: is the picture also among the others?"""
    known = {row.tobytes() for row in others.numpy()}
    return torch.tensor([row.tobytes() in known for row in found.numpy()], dtype=torch.bool)


def _digests(source: Source, places: Sequence[int], track: Track | None) -> Tensor:
    chunks: Iterable[Sequence[int]] = [places[at : at + CHUNK] for at in range(0, len(places), CHUNK)]
    if track is not None:
        chunks = track(chunks, "reading pictures to tell them apart", -(-len(places) // CHUNK))
    found: list[bytes] = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:  # hashing and reading files do not hold Python's lock
        for chunk in chunks:
            found += pool.map(partial(_digest, source), chunk)
    rows = np.frombuffer(b"".join(found), dtype=np.uint8).reshape(-1, LENGTH)
    return torch.from_numpy(rows.copy())


def _digest(source: Source, index: int) -> bytes:
    if isinstance(source, Described):
        return hashlib.sha256(source.identity(index).encode()).digest()
    if isinstance(source, FileSource):
        return _file_digest(source.path(index))
    try:
        pixels = source[index].image  # [3, h, w]
    except BrokenImage as error:
        return hashlib.sha256(f"broken {error.path}".encode()).digest()
    return hashlib.sha256(f"{tuple(pixels.shape)}".encode() + pixels.contiguous().numpy().tobytes()).digest()


def _file_digest(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:  # cannot be read, so it is the same as no other
        return hashlib.sha256(b"unreadable " + os.fsencode(path)).digest()


def _state(path: Path) -> str:
    """Where a file lies, and all that moves when it is replaced: copying tools set the time of the content, not of the change."""
    try:
        found = path.stat()
    except OSError:
        return f"{path.absolute()} gone"
    return f"{path.absolute()} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"
