"""What is wrong with a data set, before hours are spent on it: `openjepa data check`, and the quick `data info`."""

import hashlib
import os
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from openjepa.core.contracts import Source
from openjepa.core.errors import BrokenImage
from openjepa.data.abilities import has_files, names_classes
from openjepa.data.decode import image
from openjepa.machine.console import Track

CHUNK = 256  # images handed to the threads at a time, so that a million do not wait in memory
NUM_FIRST = 64  # images that `info` looks at


@dataclass(frozen=True)
class Report:
    spec: str
    num_images: int
    fingerprint: str
    labels: dict[str, dict[str, int]]  # label -> class -> number of images
    formats: dict[str, int]
    height: tuple[float, float, float]  # minimum, median, maximum
    width: tuple[float, float, float]
    images_per_second: float  # decoded at full size by one core, without waiting for the disk
    broken: dict[str, str]  # name -> reason
    tiny: tuple[str, ...]
    rotated: tuple[str, ...]  # by EXIF; we turn them upright, other programs may not
    odd_modes: dict[str, tuple[str, ...]]  # grey, palette, alpha, CMYK, 16-bit: valid, but not plain RGB
    duplicates: tuple[tuple[str, ...], ...]  # groups of images that are the same byte for byte
    contradictions: tuple[tuple[str, ...], ...]  # those of the groups whose labels differ

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Info:
    spec: str
    num_images: int
    fingerprint: str
    labels: dict[str, dict[str, int]]  # label -> class -> number of images
    first_sizes: dict[str, int]  # "64×64" -> how many of the first images

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """The facts of one image; of a broken one only the reason."""

    index: int
    name: str
    header: image.Header | None = None
    digest: bytes = b""
    seconds: float = 0.0  # of CPU time to decode it: the clock would include other threads
    broken: str = ""


def check(
    source: Source, *, spec: str, tiny: int = 32, num_threads: int | None = None, track: Track | None = None
) -> Report:
    """Decodes every image once; one with a side below `tiny` pixels is listed as tiny."""
    stream: Iterable[Finding] = findings(source, num_threads=num_threads)
    if track is not None:
        stream = track(stream, "checking images", len(source))
    everything = list(stream)
    valid = [(finding, finding.header) for finding in everything if finding.header is not None]
    seconds = sum(finding.seconds for finding in everything)
    labels = source.all_labels()
    groups = _duplicates(everything)
    return Report(
        spec=spec,
        num_images=len(source),
        fingerprint=source.fingerprint(),
        labels=_balance(source, labels),
        formats=_count(header.format for _, header in valid),
        height=_spread([header.size[0] for _, header in valid]),
        width=_spread([header.size[1] for _, header in valid]),
        images_per_second=len(valid) / seconds if seconds else 0.0,
        broken={finding.name: finding.broken for finding in everything if finding.broken},
        tiny=_names(finding for finding, header in valid if min(header.size) < tiny),
        rotated=_names(finding for finding, header in valid if header.orientation != 1),
        odd_modes=_odd_modes(valid),
        duplicates=tuple(_names(group) for group in groups),
        contradictions=tuple(_names(group) for group in groups if _disagree(group, labels)),
    )


def info(source: Source, *, spec: str) -> Info:
    """The quick look: the headers of the first images, and everything that needs no decoding."""
    sizes = [size for index in range(min(NUM_FIRST, len(source))) if (size := size_of(source, index))]
    return Info(
        spec=spec,
        num_images=len(source),
        fingerprint=source.fingerprint(),
        labels=_balance(source, source.all_labels()),
        first_sizes=_count(f"{height}×{width}" for height, width in sizes),
    )


def findings(source: Source, *, num_threads: int | None = None) -> Iterator[Finding]:
    """One Finding an image, in order. Threads suffice: Pillow does not hold Python's lock while it decodes."""
    with ThreadPoolExecutor(num_threads or os.cpu_count() or 1) as pool:
        for start in range(0, len(source), CHUNK):
            chunk = range(start, min(start + CHUNK, len(source)))
            yield from pool.map(_inspect, [source] * len(chunk), chunk)


def _inspect(source: Source, index: int) -> Finding:
    try:
        if has_files(source):
            return _inspect_file(source.path(index), index)
        start = time.thread_time()
        pixels = source[index].image  # [3, h, w]
        seconds = time.thread_time() - start
    except BrokenImage as error:
        return Finding(index, error.path, broken=error.reason)
    header = image.Header("array", "RGB", (pixels.shape[1], pixels.shape[2]), 1)
    return Finding(index, f"#{index}", header, hashlib.sha256(pixels.numpy().tobytes()).digest(), seconds)


def _inspect_file(path: Path, index: int) -> Finding:
    header = image.header(path)
    start = time.thread_time()
    image.decode(path)
    seconds = time.thread_time() - start
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    return Finding(index, str(path), header, digest, seconds)


def size_of(source: Source, index: int) -> tuple[int, int] | None:
    """Height and width, without decoding where that is possible; None for a broken image."""
    try:
        if has_files(source):
            return image.header(source.path(index)).size
        height, width = source[index].image.shape[1:]
        return height, width
    except BrokenImage:
        return None


def _odd_modes(valid: list[tuple[Finding, image.Header]]) -> dict[str, tuple[str, ...]]:
    kinds: dict[str, list[Finding]] = {}
    for finding, header in valid:
        if header.mode != "RGB":
            kinds.setdefault(_kind(header.mode), []).append(finding)
    return {kind: _names(group) for kind, group in sorted(kinds.items())}


def _kind(mode: str) -> str:
    """What people call a Pillow mode."""
    if mode.startswith("I") or mode == "F":
        return "16-bit or more"
    known = {"L": "grey", "1": "grey", "P": "palette", "PA": "palette", "LA": "alpha", "RGBA": "alpha"}
    return known.get(mode, mode)


def _duplicates(everything: list[Finding]) -> list[list[Finding]]:
    groups: dict[bytes, list[Finding]] = {}
    for finding in everything:
        if not finding.broken:
            groups.setdefault(finding.digest, []).append(finding)
    return [group for group in groups.values() if len(group) > 1]


def _disagree(group: list[Finding], labels: dict[str, Tensor]) -> bool:
    rows = [finding.index for finding in group]
    return any(len(values[rows].unique()) > 1 for values in labels.values())


def _balance(source: Source, labels: dict[str, Tensor]) -> dict[str, dict[str, int]]:
    """label -> class -> number of images, in the order of the classes; a named class without images counts 0."""
    names = source.class_names if names_classes(source) else {}
    return {label: _class_counts(values, names.get(label, ())) for label, values in labels.items()}


def _class_counts(values: Tensor, names: tuple[str, ...]) -> dict[str, int]:
    counts = Counter(dict.fromkeys(range(len(names)), 0))
    counts.update(values.tolist())
    return {names[value] if 0 <= value < len(names) else str(value): counts[value] for value in sorted(counts)}


def _names(group: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(finding.name for finding in group)


def _count(words: Iterable[str]) -> dict[str, int]:
    return dict(Counter(words).most_common())


def _spread(values: list[int]) -> tuple[float, float, float]:
    return (min(values), statistics.median(values), max(values)) if values else (0, 0, 0)
