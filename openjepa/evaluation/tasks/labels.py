"""How many labels a probe sees: `1%`, `5/class`, or a list of images in the format of ImageNet's published 1 % subset."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from openjepa.core import seeding
from openjepa.core.errors import BadInput
from openjepa.data import splits
from openjepa.data.abilities import has_files
from openjepa.evaluation.tasks.task import Labelled


@dataclass(frozen=True)
class Budget:
    """One of share, per_class and file is set."""

    text: str
    share: float | None = None  # of all training images, spread evenly over the classes
    per_class: int | None = None
    file: Path | None = None  # one image per line

    @property
    def is_random(self) -> bool:
        return self.file is None


def parse(text: str) -> Budget:
    if match := re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text.strip()):
        share = float(match[1]) / 100
        if not 0 < share <= 1:
            raise BadInput(f'--labels "{text}" is not a share of the labels; expected more than 0 % and at most 100 %')
        return Budget(text.strip(), share=share)
    if match := re.fullmatch(r"(\d+)\s*/\s*class", text.strip()):
        if int(match[1]) < 1:
            raise BadInput(f'--labels "{text}" leaves no label; expected 1/class or more')
        return Budget(text.strip(), per_class=int(match[1]))
    file = Path(text).expanduser()
    if not file.is_file():
        raise BadInput(
            f'--labels "{text}" is neither a share such as 1%, nor a number such as 5/class, nor a list file'
        )
    return Budget(text, file=file)


def draw(budget: Budget, train: Labelled, seed: int) -> Tensor:
    """-> [L] sorted rows of `train` whose labels the probe sees. Seeds draw different images; a list is always the same."""
    if budget.file is not None:
        return _listed(budget.file, train)
    classes = train.labels.unique()
    if budget.per_class is not None:
        num_labels = budget.per_class * len(classes)
    else:
        assert budget.share is not None
        num_labels = round(budget.share * len(train.labels))
    if num_labels < len(classes):
        raise BadInput(
            f"--labels {budget.text} of {len(train.labels)} images is {num_labels} labels for {len(classes)} classes; every "
            f"class needs one: use {len(classes) / len(train.labels):.2%} or more, or 1/class"
        )
    # Round by round, one of each class: as even as the classes allow; small classes give all they have. An incomplete last
    # round draws its classes at random, too.
    generator = seeding.generator(seed, "labels")
    ranks = splits.shuffled_ranks(train.labels, generator)
    if budget.per_class is not None:
        return (ranks < min(budget.per_class, len(ranks))).nonzero().squeeze(1)
    tie = torch.randperm(int(classes.max()) + 1, generator=generator)[train.labels]
    order = (ranks * (int(classes.max()) + 1) + tie).argsort()
    return order[:num_labels].sort().values


def _listed(file: Path, train: Labelled) -> Tensor:
    if not has_files(train.source):
        raise BadInput(f'--labels "{file}" lists image files, but these data are not files; use 1% or 5/class')
    lines = _lines(file)
    paths = [train.source.path(index).as_posix() for index in train.index.tolist()]
    rows = _rows_by_name(paths)
    matches = [(line, _lookup(line, rows, paths, file)) for line in lines]
    missing = [line for line, row in matches if row is None]
    if missing:
        raise BadInput(
            f'list "{file}" has {len(lines)} images, {len(missing)} of them are not among the {len(train.labels)} '
            f'training images: "{missing[0]}" is the first; check that the list belongs to these data'
        )
    chosen = torch.tensor(sorted({row for _, row in matches if row is not None}))
    num_classes, covered = len(train.labels.unique()), len(train.labels[chosen].unique())
    if covered < num_classes:
        raise BadInput(
            f'list "{file}" has {len(chosen)} labels, of {covered} of the {num_classes} classes only; every class needs one'
        )
    return chosen


def _lines(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f'cannot read list "{file}": {error}; expected UTF-8 text, one image per line') from None
    named = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not named:
        raise BadInput(f'list "{file}" names no image; expected one per line, such as n01440764_10026.JPEG')
    return named


def _rows_by_name(paths: Sequence[str]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, path in enumerate(paths):
        rows.setdefault(os.path.basename(path), []).append(row)
    return rows


def _lookup(line: str, rows_by_name: dict[str, list[int]], paths: Sequence[str], file: Path) -> int | None:
    """The row of an image, given by its name or the end of its path; later words of the line are ignored."""
    for words in (line, line.split()[0]):
        ending = f"/{words.removeprefix('./')}"  # cat/7.png is not dog/7.png
        rows = [row for row in rows_by_name.get(os.path.basename(words), []) if f"/{paths[row]}".endswith(ending)]
        if len(rows) > 1:
            raise BadInput(f'"{line}" in list "{file}" matches {len(rows)} images; write its path instead')
        if rows:
            return rows[0]
    return None
