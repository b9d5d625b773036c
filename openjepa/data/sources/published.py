"""What published data sets share: a folder on disk, two parts, and files that list images, which must exist.

The papers test on the validation part, since the labels of the test parts of these sets were never published.
"""

import json
import os
import reprlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from openjepa.core.errors import BadInput, NoSuchSplit

PARTS = {"train": "train", "val": "val", "test": "val"}  # split -> the part that is published under this name
KINDS: dict[type, str] = {int: "a whole number", str: "a text", list: "a list"}

T = TypeVar("T")


def folder(name: str, path: str | None) -> Path:
    root = Path(path or "").expanduser()
    if not path or not root.is_dir():
        raise BadInput(
            f'{name} needs an existing folder, got "{path or ""}"; write {name}:DIR, DIR being where you unpacked it'
        )
    return root


def part(name: str, split: str) -> str:
    if split not in PARTS:
        raise NoSuchSplit(f'unknown split "{split}"; {name} has train and val, and val is also its test')
    return PARTS[split]


def find(file: str, folders: Sequence[Path], *, remedy: str) -> Path:
    """The file in the first of the folders that has it."""
    for folder in folders:
        if (folder / file).is_file():
            return folder / file
    names = " or ".join(f'"{folder}"' for folder in folders)
    raise BadInput(f"no file {file} in {names}; {remedy}")


def require_images(root: Path, paths: Sequence[str], *, listed_in: Path, remedy: str) -> None:
    if not paths:
        raise BadInput(f'"{listed_in}" names no image; expected one or more, download it again')
    missing = _missing(root, paths)
    if missing:
        raise BadInput(
            f'"{listed_in}" names {len(paths)} images, {len(missing)} of them do not exist, the first is '
            f'"{missing[0]}"; expected below "{root}": {remedy}'
        )


def _missing(root: Path, paths: Sequence[str]) -> list[str]:
    """Reads each folder once instead of checking each image, of which there may be millions on a slow disk."""
    members = defaultdict(list)
    for index, path in enumerate(paths):
        members[path.rpartition("/")[0]].append(index)
    missing: list[int] = []
    for inside, indices in members.items():
        present = names_in(root / inside)
        missing += [index for index in indices if paths[index].rpartition("/")[2] not in present]
    return [paths[index] for index in sorted(missing)]


def names_in(folder: Path) -> frozenset[str]:
    """The names in a folder; none if there is no such folder."""
    try:
        return frozenset(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except (OSError, ValueError) as error:  # ValueError: no file system knows the character \0
        raise BadInput(f'cannot read folder "{folder}": {error}; fix its permissions or the list') from error


def read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")  # -sig: Windows editors put a byte order mark in front
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f'cannot read "{file}": {error}; expected UTF-8 text, download it again') from error


def read_json(file: Path, *, keep: frozenset[str]) -> dict[str, Any]:
    """An object with only the keys in `keep`, at every depth: all of CLEVR's 70,000 scenes would fill gigabytes."""
    text = read_text(file)
    try:
        content = json.loads(text, object_hook=partial(_only, keep))
    except (ValueError, RecursionError) as error:  # ValueError: bad syntax, or a number of thousands of digits
        raise BadInput(f'"{file}" is not valid JSON: {error}; it is cut short or damaged, download it again') from error
    if not isinstance(content, dict):
        raise BadInput(f'"{file}" holds {reprlib.repr(content)}, expected a JSON object; download it again')
    return content


def _only(keep: frozenset[str], entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key in keep}


def entries(content: dict[str, Any], key: str, file: Path) -> Iterator[tuple[str, Any]]:
    """-> (its location, the entry) for each entry of a list in a JSON file."""
    for number, entry in enumerate(field(content, key, list, f'"{file}"')):
        yield f'"{file}" {key}[{number}]', entry


def field(entry: Any, key: str, kind: type[T], where: str) -> T:
    value = entry.get(key) if isinstance(entry, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):  # bool: True is an int to Python
        shown = "nothing" if value is None else reprlib.repr(value)
        raise BadInput(f'{where} has {shown} as "{key}", expected {KINDS[kind]}; download the file again')
    return value
