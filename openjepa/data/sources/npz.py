"""Source `npz`: images and labels in one numpy archive, as Keras, MedMNIST and people's own scripts write them.

Nothing in the file is executed: arrays that need pickle are refused.
"""

import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from numpy.lib.npyio import NpzFile
from torch import Tensor

from openjepa.core.contracts import SourceRequest, sources
from openjepa.core.errors import BadInput, NoSuchSplit
from openjepa.data.sources import arrays

# (images, labels), the first pair whose images are there; the plain names at the end are a file that is one single set
KEYS = {
    "train": (
        ("x_train", "y_train"),
        ("train_images", "train_labels"),
        ("images", "labels"),
        ("x", "y"),
        ("arr_0", "arr_1"),
    ),
    "val": (("x_val", "y_val"), ("val_images", "val_labels")),
    "test": (("x_test", "y_test"), ("test_images", "test_labels")),
}
NPZ_ERRORS = (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error)


@sources.register("npz")
def open_npz(request: SourceRequest) -> arrays.ArraySource:
    if not request.path or not Path(request.path).expanduser().is_file():
        raise BadInput(f'npz needs an existing file, got "{request.path or ""}"; write npz:FILE.npz')
    path = Path(request.path).expanduser()
    try:
        with path.open("rb") as file:  # ours to close: numpy leaves it open when it finds no archive in it
            return _source(_archive(file, path), path, request.split)
    except OSError as error:
        raise BadInput(f'cannot read "{path}": {error.strerror}') from error


def _source(archive: NpzFile, path: Path, split: str) -> arrays.ArraySource:
    image_key, label_key = _keys(archive, path, split)
    images = arrays.as_images(_array(archive, image_key, path), f'"{path}" key {image_key}')
    has_labels = label_key in archive.files
    labels = _labels(_array(archive, label_key, path), f'"{path}" key {label_key}') if has_labels else {}
    return arrays.ArraySource(path.name, images, labels)


def _archive(file: BinaryIO, path: Path) -> NpzFile:
    try:
        archive = np.load(file, allow_pickle=False)
    except NPZ_ERRORS as error:
        raise BadInput(f'"{path}" is not a readable .npz archive: {error}') from error
    if not isinstance(archive, NpzFile):
        raise BadInput(f'"{path}" holds one bare array; save it with numpy.savez(file, images=..., labels=...)')
    return archive


def _keys(archive: NpzFile, path: Path, split: str) -> tuple[str, str]:
    for image_key, label_key in KEYS.get(split, ()):
        if image_key in archive.files:
            return image_key, label_key
    expected = " or ".join(image_key for image_key, _ in KEYS.get(split, ())) or f"a split of {', '.join(KEYS)}"
    raise NoSuchSplit(
        f'"{path}" has no {split} images: it has the keys {", ".join(archive.files) or "(none)"}; expected {expected}'
    )


def _array(archive: NpzFile, key: str, path: Path) -> np.ndarray:
    try:
        return archive[key]
    except NPZ_ERRORS as error:
        reason = "an object array, which would need pickle" if "allow_pickle" in str(error) else str(error)
        raise BadInput(f'"{path}" key {key} cannot be read: {reason}; save plain number arrays') from error


def _labels(array: np.ndarray, name: str) -> dict[str, Tensor]:
    """[S] or [S, 1] is the label `class`; each column of [S, L], as in ChestMNIST, `class_0`, `class_1` …"""
    if array.ndim not in (1, 2) or array.dtype.kind not in "biuf" or not np.array_equal(array, np.rint(array)):
        raise BadInput(f"{name}: labels are {array.dtype} {list(array.shape)}; expected whole numbers, [S] or [S, L]")
    columns = torch.from_numpy(array.astype(np.int64)).reshape(len(array), -1).T  # [L, S]
    if len(columns) == 1:
        return {"class": columns[0]}
    return {f"class_{index}": column for index, column in enumerate(columns)}
