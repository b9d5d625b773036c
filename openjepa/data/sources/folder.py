"""Source `folder`: a folder of images, class folders or flat, nested as deep as you like."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from openjepa.core.contracts import SourceRequest, sources
from openjepa.core.errors import BadInput, NoSuchSplit
from openjepa.core.types import Sample
from openjepa.data.decode import image, pillow

SPLIT_FOLDERS = {"train": ("train",), "val": ("val", "validation"), "test": ("test", "val", "validation")}
IGNORED = frozenset({"__MACOSX", "lost+found"})  # besides everything that starts with a dot


@dataclass(frozen=True)
class ImageFolder:
    """Image files below a root. Paths are strings, because a million Path objects would fill a gigabyte."""

    root: Path
    paths: tuple[str, ...]  # relative to the root, with forward slashes
    labels: dict[str, tuple[int, ...]] = field(default_factory=dict)  # by name, each [S]; empty: unlabelled
    class_names: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Sample:
        labels = {name: values[index] for name, values in self.labels.items()}
        return Sample(image.decode(self.path(index)), labels)

    def all_labels(self) -> dict[str, Tensor]:
        return {name: torch.tensor(values) for name, values in self.labels.items()}

    def path(self, index: int) -> Path:
        return self.root / self.paths[index]

    def fingerprint(self) -> str:
        """sha256 of relative paths, byte sizes and labels, but not of the contents: ImageNet has 150 GB of them.

        It does not notice an image that is overwritten by one of exactly the same size.
        """
        digest = hashlib.sha256()
        columns = [self.labels[name] for name in sorted(self.labels)]
        for index, path in enumerate(self.paths):
            label = ",".join(str(values[index]) for values in columns) or None
            digest.update(os.fsencode(path) + f"\0{_byte_size(self.root / path)}\0{label}\n".encode())
        return digest.hexdigest()


def _byte_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1  # a dangling link is listed, and reported as a broken image when it is loaded


@sources.register("folder")
def open_folder(request: SourceRequest) -> ImageFolder:
    """The first folder below the root is the label `class`, if every image is in one and there are two or more.

    If all images are in folders called train, val(idation) or test, these are the splits ("test" takes val when there
    is no test), and class folders are below them. Any other folder is one set, called "train":
    a class called "test" among others must not become the test set.
    """
    root = _existing_folder(request.path)
    paths = sorted(_walk(str(root), "", frozenset()))
    if not paths:
        raise BadInput(f'no images in folder "{root}" or below it; expected files such as .jpg, .png or .webp')
    tops = {path.split("/")[0] if "/" in path else "" for path in paths}
    has_splits = tops <= {name for names in SPLIT_FOLDERS.values() for name in names}
    split = _split_folder(root, tops if has_splits else set(), request.split)
    chosen = tuple(path for path in paths if path.startswith(split))
    return _labelled(root, chosen, paths, depth=1 if has_splits else 0)


def _existing_folder(path: str | None) -> Path:
    if not path:
        raise BadInput("the source folder needs a path; write folder:PATH, or just PATH")
    root = Path(path).expanduser()
    if not root.exists():
        raise BadInput(f'folder "{root}" does not exist; check the path (we are in "{Path.cwd()}")')
    if not root.is_dir():
        raise BadInput(f'"{root}" is a file, not a folder; give its folder, or list:{root} if it is a list of images')
    return root


def _walk(folder: str, prefix: str, above: frozenset[str]) -> Iterator[str]:
    """Relative paths of the images below. Skips a link to a folder above, which would never end."""
    real = os.path.realpath(folder)
    if real in above:
        return
    for entry in _entries(folder):
        if entry.name.startswith(".") or entry.name in IGNORED:
            continue
        # isdir for links: a link that points at itself is an error for entry.is_dir and simply no folder for isdir
        if os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir():
            yield from _walk(entry.path, f"{prefix}{entry.name}/", above | {real})
        elif _is_image(entry.name) and (entry.is_symlink() or entry.is_file()):
            yield prefix + entry.name


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise BadInput(
            f'cannot read folder "{folder}": {error.strerror}; fix its permissions or move it away'
        ) from error


def _is_image(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in pillow.extensions()


def _split_folder(root: Path, tops: set[str], split: str) -> str:
    """What the paths of this split start with; `tops` are the split folders there are, none for one undivided set."""
    if split not in SPLIT_FOLDERS:
        raise NoSuchSplit(f'unknown split "{split}"; a folder can have {", ".join(SPLIT_FOLDERS)}')
    for name in SPLIT_FOLDERS[split]:
        if name in tops:
            return name + "/"
    if tops:
        raise NoSuchSplit(
            f'folder "{root}" has no {split} split, only {", ".join(sorted(tops))}; give that folder itself'
        )
    if split != "train":
        raise NoSuchSplit(
            f'folder "{root}" has no {split} split; to add one, put all images into sub-folders called train and {split}'
        )
    return ""


def _labelled(root: Path, chosen: tuple[str, ...], everything: list[str], *, depth: int) -> ImageFolder:
    """Class names come from all splits, so that a class missing from one of them does not shift the numbers."""
    names = sorted({name for path in everything if (name := _class_folder(path, depth))})
    number = {name: index for index, name in enumerate(names)}
    folders = [_class_folder(path, depth) for path in chosen]
    labels = tuple(number[name] for name in folders if name is not None)
    if len(names) < 2 or len(labels) < len(chosen):
        return ImageFolder(root, chosen)
    return ImageFolder(root, chosen, {"class": labels}, {"class": tuple(names)})


def _class_folder(path: str, depth: int) -> str | None:
    parts = path.split("/")
    return parts[depth] if len(parts) > depth + 1 else None
