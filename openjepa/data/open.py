"""Opens what a user writes for `--data`: a folder, a file, or `name[:path]` of a registered source."""

import difflib
import os
from pathlib import Path

from openjepa.core.contracts import Source, SourceRequest, sources
from openjepa.core.errors import BadInput
from openjepa.core.registry import did_you_mean

BY_SUFFIX = {".npz": "npz", ".txt": "list", ".lst": "list", ".csv": "list", ".tsv": "list"}


def open_source(spec: str, *, split: str = "train", image_size: tuple[int, int] = (64, 64)) -> Source:
    """What exists on disk wins, so a folder may be called `a:b`; `scenes:` is the source despite a folder `scenes`."""
    name, path = _resolve(spec)
    return sources[name](SourceRequest(path=path, split=split, image_size=image_size))


def _resolve(spec: str) -> tuple[str, str | None]:
    """-> (source name, path or None)"""
    if not spec.strip():
        raise BadInput("--data is empty; expected a folder, a list file, or a source such as scenes")
    path_on_disk = os.path.expanduser(spec)
    if os.path.isdir(path_on_disk):
        return "folder", path_on_disk
    if os.path.isfile(path_on_disk):
        return _by_suffix(Path(path_on_disk)), path_on_disk
    name, _, path = spec.partition(":")
    if name in sources:
        return name, path or None
    raise BadInput(f'no folder or file "{spec}", and no data source of that name{_suggestion(path_on_disk, name)}')


def _by_suffix(file: Path) -> str:
    name = BY_SUFFIX.get(file.suffix.lower())
    if name is None:
        raise BadInput(
            f'"{file}" is a file, but neither .npz nor a list ({", ".join(list(BY_SUFFIX)[1:])}); give a folder, '
            f"or name its source, as in cifar10:{file}"
        )
    return name


def _suggestion(path: str, name: str) -> str:
    """The closest name in the folder of a path that does not exist, else among the sources."""
    folder, misspelt = os.path.split(path)
    if folder and os.path.isdir(folder):
        close = difflib.get_close_matches(misspelt, os.listdir(folder), n=1)
        if close:
            return f'; did you mean "{os.path.join(folder, close[0])}"?'
    return did_you_mean(name, sources.names())
