"""Source `idx`: the MNIST family (MNIST, Fashion, Kuzushiji, EMNIST) in Yann LeCun's idx files, plain or gzipped.

File names carry the meaning: PREFIX(train|t10k|test)…(images|labels)….
"""

import gzip
import math
import re
import zlib
from pathlib import Path

import numpy as np
import torch

from openjepa.core.contracts import SourceRequest, sources
from openjepa.core.errors import BadInput, NoSuchSplit
from openjepa.data.sources import arrays

NAME = re.compile(r"(?P<prefix>.*?)(?P<split>train|t10k|test)[-_.]?(?P<kind>images|labels).*", re.IGNORECASE)
SPLITS = {"train": ("train",), "test": ("t10k", "test")}
EXPECTED = "files such as train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz"


@sources.register("idx")
def open_idx(request: SourceRequest) -> arrays.ArraySource:
    path = Path(request.path or "").expanduser()
    if not request.path or not path.exists():
        raise BadInput(
            f'idx needs an existing folder or file, got "{request.path or ""}"; write idx:DIR with {EXPECTED}'
        )
    if request.split not in SPLITS:
        raise NoSuchSplit(f'unknown split "{request.split}"; idx files have {" and ".join(SPLITS)}')
    image_file = _find(path, request.split, "images")
    if image_file is None:
        raise NoSuchSplit(f'no idx images for split {request.split} in "{path}"; expected {EXPECTED}')
    images = _read(image_file, ndim=3)  # [S, h, w]
    if image_file.name.lower().startswith("emnist"):
        images = images.swapaxes(1, 2)  # EMNIST alone stores its images column by column
    # Labels have the prefix of the image file, so that one folder can hold several members of the family.
    label_file = _find(image_file, request.split, "labels")
    labels = {} if label_file is None else {"class": torch.from_numpy(_read(label_file, ndim=1).astype(np.int64))}
    return arrays.ArraySource(path.name, arrays.as_images(images, f'"{image_file}"'), labels)


def _find(path: Path, split: str, kind: str) -> Path | None:
    """The one file of this split and kind in a folder, or beside a file with the same prefix."""
    folder = path if path.is_dir() else path.parent
    prefix = None if path.is_dir() else _prefix(path)
    files: dict[str, Path] = {}  # by name without .gz, and sorted: an unpacked file comes first and wins
    for file in _listing(folder):
        match = NAME.fullmatch(file.name)
        if match is None or not file.is_file() or prefix not in (None, match["prefix"]):
            continue
        if match["split"].lower() in SPLITS[split] and match["kind"].lower() == kind:
            files.setdefault(file.name.removesuffix(".gz"), file)
    if len(files) > 1:
        names = ", ".join(sorted(files))
        raise BadInput(f'"{folder}" holds {len(files)} files of {split} {kind} ({names}); give one image file instead')
    return next(iter(files.values()), None)


def _listing(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise BadInput(f'cannot read folder "{folder}": {error.strerror}') from error


def _prefix(file: Path) -> str:
    match = NAME.fullmatch(file.name)
    if match is None:
        raise BadInput(f'"{file}" does not say what it holds; expected {EXPECTED}')
    return match["prefix"]


def _read(file: Path, *, ndim: int) -> np.ndarray:
    """The idx format: 0, 0, type (8 is uint8), number of axes; each axis as a big-endian uint32; then the values."""
    data = _bytes(file)
    if data[:4] != bytes([0, 0, 8, ndim]):
        expected = bytes([0, 0, 8, ndim]).hex()
        raise BadInput(f'"{file}" starts with {data[:4].hex() or "nothing"}, expected {expected} (idx{ndim}, uint8)')
    start = 4 + 4 * ndim
    shape = [int.from_bytes(data[offset : offset + 4], "big") for offset in range(4, start, 4)]
    if len(data) != start + math.prod(shape):
        raise BadInput(
            f'"{file}" has {len(data)} bytes, but its header {shape} requires {start + math.prod(shape)}; '
            "download it again"
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def _bytes(file: Path) -> bytes:
    try:
        data = file.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f'cannot read "{file}": {error}; download it again') from error
