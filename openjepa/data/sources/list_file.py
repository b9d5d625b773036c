"""Source `list`: a text file with one image per line, relative to the list's own folder, and optionally a label.

The label, a number or a word, follows a tab, a comma or a space. Paths contain commas and spaces too: if the whole line
names an existing file, it is a path without label; otherwise it is split at the last tab, comma or space.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from openjepa.core.contracts import SourceRequest, sources
from openjepa.core.errors import BadInput, NoSuchSplit
from openjepa.data.sources.folder import ImageFolder

HEADINGS = frozenset({"path", "file", "filename", "image"})  # the first line of a CSV file may name its columns


@dataclass(frozen=True)
class Line:
    number: int  # counted from 1, as editors do
    path: str
    label: str | None


@sources.register("list")
def open_list(request: SourceRequest) -> ImageFolder:
    """Numbers are labels as they are; words are numbered alphabetically, so two lists agree if their words do."""
    file = _existing_file(request.path)
    if request.split != "train":
        raise NoSuchSplit(
            f'list "{file}" is one set and has no {request.split} split; give that split as a list of its own'
        )
    lines = _parse(file)
    missing = [line for line in lines if not os.path.isfile(file.parent / line.path)]
    if missing:
        raise BadInput(
            f'list "{file}" names {len(lines)} images, {len(missing)} of them do not exist: "{missing[0].path}" '
            f"in line {missing[0].number}; paths are relative to {file.parent.resolve()}"
        )
    labels, names = _labels(file, lines)
    return ImageFolder(file.parent, tuple(line.path for line in lines), labels, names)


def _existing_file(path: str | None) -> Path:
    if not path:
        raise BadInput("the source list needs a path; write list:FILE, one image per line")
    file = Path(path).expanduser()
    if not file.is_file():
        raise BadInput(f'list "{file}" is not a file; give a text file with one image per line')
    return file


def _parse(file: Path) -> list[Line]:
    try:
        text = file.read_text(encoding="utf-8-sig")  # -sig: Windows editors put a byte order mark in front
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f'cannot read list "{file}": {error}; expected UTF-8 text, one image per line') from error
    lines = []
    for number, raw in enumerate(text.splitlines(), start=1):
        if raw.strip() and not raw.lstrip().startswith("#"):
            path, label = _split_line(raw.strip(), file.parent)
            lines.append(Line(number, path, label))
    if lines and lines[0].path.lower() in HEADINGS and not os.path.isfile(file.parent / lines[0].path):
        del lines[0]
    if not lines:
        raise BadInput(f'list "{file}" names no image; expected one path per line')
    return lines


def _split_line(line: str, folder: Path) -> tuple[str, str | None]:
    if os.path.isfile(folder / _unquoted(line)):
        return _unquoted(line), None
    for separator in ("\t", ",", None):  # None: any white space
        parts = line.rsplit(separator, 1)
        if len(parts) == 2 and os.path.isfile(folder / _unquoted(parts[0])):
            return _unquoted(parts[0]), _unquoted(parts[1])
    # No such file whichever way we split it: report the part before a tab or comma, most likely the path.
    return _unquoted(line.replace("\t", ",").split(",")[0]), None


def _unquoted(text: str) -> str:
    return text.strip().strip('"')


def _labels(file: Path, lines: list[Line]) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[str, ...]]]:
    """-> labels and class names, both by the name "class"; empty when no line has a label."""
    words = [line.label for line in lines if line.label]
    if not words:
        return {}, {}
    if len(words) < len(lines):
        bare = next(line for line in lines if not line.label)
        raise BadInput(f'list "{file}" has labels, but line {bare.number} ("{bare.path}") has none; label all or none')
    if all(label.isdecimal() for label in words):
        return {"class": tuple(int(label) for label in words)}, {}
    names = sorted(set(words))
    number = {name: index for index, name in enumerate(names)}
    return {"class": tuple(number[label] for label in words)}, {"class": tuple(names)}
