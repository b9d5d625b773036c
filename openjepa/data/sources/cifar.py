"""Sources `cifar10` and `cifar100` (Krizhevsky 2009), in the files from https://www.cs.toronto.edu/~kriz/cifar.html:

the binary or the python version, as a folder, its parent, or the .tar.gz as downloaded. The python version is pickle,
which can run code when it is read; our reader builds arrays, lists and strings and refuses everything else.
"""

import io
import pickle
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from openjepa.core.contracts import Source, SourceRequest, sources
from openjepa.core.errors import BadInput, NoSuchSplit
from openjepa.data.sources import arrays, npz

PIXELS = 3 * 32 * 32
FOLDERS = {
    "cifar10": ("cifar-10-batches-bin", "cifar-10-batches-py"),
    "cifar100": ("cifar-100-binary", "cifar-100-python"),
}
ARCHIVES = {
    "cifar10": ("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"),
    "cifar100": ("cifar-100-binary.tar.gz", "cifar-100-python.tar.gz"),
}
SPLITS: dict[str, dict[str, tuple[str, ...]]] = {  # file names of the python version; the binary version adds .bin
    "cifar10": {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)},
    "cifar100": {"train": ("train",), "test": ("test",)},
}
LABELS = {  # label -> its key in a pickle, in the order of a binary record
    "cifar10": {"class": "labels"},
    "cifar100": {"coarse": "coarse_labels", "class": "fine_labels"},
}
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
NAME_FILES = {
    "coarse": "coarse_label_names",
    "class": "fine_label_names",
}  # of CIFAR-100: .txt files, or keys in `meta`
READ_ERRORS = (OSError, EOFError, zlib.error, tarfile.TarError)
PICKLE_ERRORS = (pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError, AttributeError, OverflowError)

Part = tuple[np.ndarray, dict[str, np.ndarray]]  # images [S, 3, 32, 32] uint8, labels each [S] int64


@sources.register("cifar10")
def open_cifar10(request: SourceRequest) -> Source:
    return _open("cifar10", request)


@sources.register("cifar100")
def open_cifar100(request: SourceRequest) -> Source:
    return _open("cifar100", request)


def _open(name: str, request: SourceRequest) -> Source:
    path = Path(request.path or "").expanduser()
    if not request.path or not path.exists():
        raise BadInput(f'{name} needs an existing folder or archive, got "{request.path or ""}"; write {name}:PATH')
    if path.suffix == ".npz":
        return npz.open_npz(request)
    if request.split not in SPLITS[name]:
        raise NoSuchSplit(f'unknown split "{request.split}"; {name} has {" and ".join(SPLITS[name])}')
    stems = SPLITS[name][request.split]
    names = {*stems, *(f"{stem}.bin" for stem in stems), "meta", *(f"{file}.txt" for file in NAME_FILES.values())}
    files = _read(_location(name, path), names)
    parts = [_part(name, stem, files, path) for stem in stems]
    images = torch.from_numpy(np.concatenate([images for images, _ in parts]))  # [S, 3, 32, 32]
    labels = {key: torch.from_numpy(np.concatenate([labels[key] for _, labels in parts])) for key in LABELS[name]}
    return arrays.ArraySource(name, images, labels, _class_names(name, files))


def _location(name: str, path: Path) -> Path:
    """The folder or archive that holds the files, for a path to it or to its parent."""
    for inside in (*FOLDERS[name], *ARCHIVES[name]):
        if (path / inside).exists():
            return path / inside
    return path


def _read(path: Path, names: set[str]) -> dict[str, bytes]:
    try:
        if path.is_dir():
            return {file: (path / file).read_bytes() for file in sorted(names) if (path / file).is_file()}
        with tarfile.open(path) as archive:  # read in memory: nothing is unpacked, so no path in it can do harm
            members = [member for member in archive if member.isfile() and Path(member.name).name in names]
            return {Path(member.name).name: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]
    except READ_ERRORS as error:
        raise BadInput(
            f'cannot read "{path}": {error}; expected a CIFAR folder or .tar.gz, download it again'
        ) from error


def _part(name: str, stem: str, files: dict[str, bytes], path: Path) -> Part:
    if f"{stem}.bin" in files:
        return _binary_part(name, files[f"{stem}.bin"], f'"{path}" {stem}.bin')
    if stem in files:
        return _pickled_part(name, files[stem], f'"{path}" {stem}')
    raise BadInput(
        f'"{path}" has no file {stem}.bin or {stem}; expected the folder {" or ".join(FOLDERS[name])}, complete'
    )


def _binary_part(name: str, data: bytes, where: str) -> Part:
    record = len(LABELS[name]) + PIXELS  # label bytes, then red, green and blue planes
    if not data or len(data) % record:
        raise BadInput(f"{where} has {len(data)} bytes, not a multiple of {record}; it is cut short or not {name}")
    rows = np.frombuffer(data, np.uint8).reshape(-1, record)  # [S, record]
    labels = {key: rows[:, column].astype(np.int64) for column, key in enumerate(LABELS[name])}
    return rows[:, len(labels) :].reshape(-1, 3, 32, 32), labels


def _pickled_part(name: str, data: bytes, where: str) -> Part:
    content = _unpickle(data, where)
    images = content.get("data")
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (PIXELS,):
        raise BadInput(f"{where} holds no uint8 array [S, {PIXELS}] called data; it is not a batch of {name}")
    try:
        labels = {key: np.array(content[theirs], dtype=np.int64) for key, theirs in LABELS[name].items()}
    except (LookupError, ValueError, TypeError, OverflowError) as error:
        raise BadInput(f"{where} has no usable labels ({error!r}); it is not a batch of {name}") from error
    return images.reshape(-1, 3, 32, 32), labels


def _class_names(name: str, files: dict[str, bytes]) -> dict[str, tuple[str, ...]]:
    if name == "cifar10":
        return {"class": CIFAR10_CLASSES}
    if "meta" in files:
        meta = _unpickle(files["meta"], "meta")
        return {key: tuple(map(_text, meta[theirs])) for key, theirs in NAME_FILES.items() if theirs in meta}
    texts = {key: files.get(f"{file}.txt", b"").decode().split() for key, file in NAME_FILES.items()}
    return {key: tuple(words) for key, words in texts.items() if words}


def _unpickle(data: bytes, where: str) -> dict[str, Any]:
    try:
        content = ArrayUnpickler(io.BytesIO(data), encoding="bytes").load()  # bytes: written by Python 2
    except BadInput:
        raise
    except PICKLE_ERRORS as error:
        raise BadInput(f"{where} is damaged ({error!r}); download it again") from error
    if not isinstance(content, dict):
        raise BadInput(f"{where} holds a {type(content).__name__}, expected a dictionary; it is not a CIFAR file")
    return {_text(key): value for key, value in content.items()}


def _text(word: Any) -> str:
    return word.decode("latin1") if isinstance(word, bytes) else str(word)


class ArrayUnpickler(pickle.Unpickler):
    """Knows numpy arrays and bytes by name; a pickle that needs more is refused before anything is called."""

    def find_class(self, module: str, name: str) -> Any:
        rebuild = np.empty(0).__reduce__()[0]  # numpy's own function; its module moved between numpy 1 and 2
        known = {
            "numpy.core.multiarray._reconstruct": rebuild,
            "numpy._core.multiarray._reconstruct": rebuild,
            "numpy.ndarray": np.ndarray,
            "numpy.dtype": np.dtype,
            "_codecs.encode": _latin1,
        }
        if f"{module}.{name}" not in known:
            raise BadInput(
                f"the pickle needs {module}.{name}, which no CIFAR file does, so we refused it; download the data again"
            )
        return known[f"{module}.{name}"]


def _latin1(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes for Python 2; any other encoding would have no reason to be there."""
    if encoding not in ("latin1", b"latin1"):
        raise BadInput(f"the pickle uses encoding {encoding!r}, expected latin1; it is not an official file")
    return text.encode("latin1")
