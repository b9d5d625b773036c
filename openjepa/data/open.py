"""What a user writes for `--data`, turned into a source: a folder, a file, or `name[:path]` of a registered source."""

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
        raise BadInput("no data given; expected a folder, a list file, or a source such as scenes")
    place = os.path.expanduser(spec)
    if os.path.isdir(place):
        return "folder", place
    if os.path.isfile(place):
        return _by_suffix(Path(place)), place
    name, _, path = spec.partition(":")
    if name in sources:
        return name, path or None
    raise BadInput(f'no folder or file "{spec}", and no data source of that name{_suggestion(place, name)}')


def _by_suffix(file: Path) -> str:
    name = BY_SUFFIX.get(file.suffix.lower())
    if name is None:
        raise BadInput(
            f'"{file}" is a file, but neither .npz nor a list ({", ".join(list(BY_SUFFIX)[1:])}); give a folder, '
            f"or say what it is, as in cifar10:{file}"
        )
    return name


def _suggestion(place: str, name: str) -> str:
    """A near miss among what lies beside the path that does not exist, else among the sources."""
    folder, wanted = os.path.split(place)
    if folder and os.path.isdir(folder):
        close = difflib.get_close_matches(wanted, os.listdir(folder), n=1)
        if close:
            return f'; did you mean "{os.path.join(folder, close[0])}"?'
    return did_you_mean(name, sources.names())
