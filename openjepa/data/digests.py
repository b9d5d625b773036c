"""Which image is it? A digest of its bytes (files) or pixels (arrays), for finding the same image in two sets.

The same photo saved in another format or at another size has another digest: this finds only exact copies.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from openjepa.core.contracts import HasFiles, Source
from openjepa.core.errors import BrokenImage
from openjepa.data.abilities import has_files, has_identity
from openjepa.machine import cache
from openjepa.machine.console import Track

LENGTH = 32  # bytes of a sha256
CHUNK = 1024  # images handed to the threads at a time


def digests(
    source: Source, index: Tensor | None = None, *, track: Track | None = None, uses_cache: bool = True
) -> Tensor:
    """-> [S, 32] uint8, a digest of each image, or of those at index [S]. Files are read once, until they change."""
    indices = range(len(source)) if index is None else index.tolist()
    if not has_files(source) or not uses_cache:
        return _digests(source, indices, track if has_files(source) else None)
    rows = cached(source, indices)
    if rows is None:
        rows = _digests(source, indices, track)
        cache.store(_cache_key(source, indices), {"digests": rows})
    return rows


def cached(source: HasFiles, indices: Sequence[int]) -> Tensor | None:
    """The digests of files that were read before and have not changed since, or None."""
    stored = cache.load(_cache_key(source, indices))
    return None if stored is None or stored["digests"].shape != (len(indices), LENGTH) else stored["digests"]


def _cache_key(source: HasFiles, indices: Sequence[int]) -> str:
    return cache.key("digests", *(_state(source.path(index)) for index in indices))


def content_key(rows: Tensor) -> str:
    """[S, 32] -> a name for these images in this order."""
    return hashlib.sha256(rows.contiguous().numpy().tobytes()).hexdigest()


def occur_in(rows: Tensor, others: Tensor) -> Tensor:
    """[S, 32], [R, 32] -> [S] bool: is the image also among the others?"""
    known = {row.tobytes() for row in others.numpy()}
    return torch.tensor([row.tobytes() in known for row in rows.numpy()], dtype=torch.bool)


def _digests(source: Source, indices: Sequence[int], track: Track | None) -> Tensor:
    chunks: Iterable[Sequence[int]] = [indices[start : start + CHUNK] for start in range(0, len(indices), CHUNK)]
    if track is not None:
        chunks = track(chunks, "reading images to identify them", -(-len(indices) // CHUNK))
    rows: list[bytes] = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:  # hashing and reading files do not hold Python's lock
        for chunk in chunks:
            rows += pool.map(partial(_digest, source), chunk)
    return torch.from_numpy(np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, LENGTH).copy())


def _digest(source: Source, index: int) -> bytes:
    if has_identity(source):
        return hashlib.sha256(source.identity(index).encode()).digest()
    if has_files(source):
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
    except OSError:  # an unreadable file equals no other
        return hashlib.sha256(b"unreadable " + os.fsencode(path)).digest()


def _state(path: Path) -> str:
    """Path, size and times: copying tools can set the time of the content (mtime), but not that of the change (ctime)."""
    try:
        state = path.stat()
    except OSError:
        return f"{path.absolute()} gone"
    return f"{path.absolute()} {state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_ino}"
