"""The labelled pictures of a task, split into training and test; `finding.py` says which task a word means."""

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from openjepa.core import seeding
from openjepa.core.contracts import Source
from openjepa.core.errors import BadInput, NoSuchSplit
from openjepa.data import splits
from openjepa.data.open import open_source
from openjepa.evaluation.tasks.definition import Definition
from openjepa.evaluation.tasks.lookup import find

TEST_SHARE = 0.2  # of a source that has no test split of its own


@dataclass(frozen=True)
class Labelled:
    """A source, some places in it, and their classes."""

    source: Source
    index: Tensor  # [S]
    labels: Tensor  # [S]

    def take(self, rows: Tensor) -> "Labelled":
        return replace(self, index=self.index[rows], labels=self.labels[rows])


@dataclass(frozen=True)
class Task:
    name: str  # as the user wrote it
    definition: Definition
    train: Labelled
    test: Labelled
    split: str  # how training and test were told apart
    num_classes: int
    path: str | None = None


def open_task(
    spec: str,
    *,
    image_size: tuple[int, int],
    root: Path | None = None,
    num_train: int | None = None,
    num_test: int | None = None,
) -> Task:
    """With `num_train` and `num_test` a class-balanced part of the pictures, the same every time."""
    definition, path = find(spec, root)
    for name, number in (("num_train", num_train), ("num_test", num_test)):
        if number is not None and number < 1:
            raise BadInput(f"{name} is {number}; expected 1 or more pictures")
    if definition.is_embedded:
        asked = [_spec(definition, path if number is None else str(number)) for number in (num_train, num_test)]
        train = open_source(asked[0], split=definition.train, image_size=image_size)
        test = open_source(asked[1], split=definition.test, image_size=image_size)
        return _task(spec, definition, path, train, test)
    where = _spec(definition, path)
    train = open_source(where, split=definition.train, image_size=image_size)
    try:
        opened = _task(spec, definition, path, train, _open_test(where, definition, image_size))
    except NoSuchSplit:
        opened = _split(spec, definition, path, train)
    if num_train is not None and num_train < opened.num_classes:
        raise BadInput(f"num_train is {num_train}, but {spec} has {opened.num_classes} classes; use at least that many")
    return replace(opened, train=_fewer(opened.train, num_train), test=_fewer(opened.test, num_test))


def _open_test(where: str, definition: Definition, image_size: tuple[int, int]) -> Source:
    """Competitions publish test pictures without labels; then the validation pictures are what one can test on."""
    test = open_source(where, split=definition.test, image_size=image_size)
    if definition.label not in test.all_labels() and definition.test != "val":
        with suppress(NoSuchSplit):
            return open_source(where, split="val", image_size=image_size)
    return test


def labels_of(source: Source, label: str, name: str) -> Tensor:
    """-> [S] classes."""
    labels = source.all_labels()
    if label not in labels:
        none = "it has none; a folder needs two or more sub-folders, one per class, with every picture in one of them"
        known = f"it has {', '.join(labels)}" if labels else none
        raise BadInput(f'{name} has no label "{label}"; {known}')
    return labels[label]


def _spec(definition: Definition, path: str | None) -> str:
    return definition.source if path is None else f"{definition.source}:{path}"


def _task(name: str, definition: Definition, path: str | None, train: Source, test: Source) -> Task:
    seen, asked = (labels_of(source, definition.label, name) for source in (train, test))
    strangers = sorted(set(asked.tolist()) - set(seen.tolist()))
    if strangers:
        raise BadInput(
            f"class {_class_name(train, definition.label, strangers[0])} of {name} has test pictures but no training "
            "pictures; add some, or take its test pictures away"
        )
    classes = _classes(seen, name)
    parts = [
        Labelled(source, torch.arange(len(source)), torch.searchsorted(classes, labels))
        for source, labels in ((train, seen), (test, asked))
    ]
    return Task(name, definition, parts[0], parts[1], "the data set's own", len(classes), path)


def _split(name: str, definition: Definition, path: str | None, source: Source) -> Task:
    """A class-balanced split of one source, the same every time."""
    labels = labels_of(source, definition.label, name)
    classes = _classes(labels, name)
    numbers = torch.searchsorted(classes, labels)
    lonely = (numbers.bincount() == 1).nonzero()
    if len(lonely):
        raise BadInput(
            f"class {_class_name(source, definition.label, int(classes[lonely[0]]))} of {name} has one picture only; a "
            "split into training and test needs two or more"
        )
    everything = Labelled(source, torch.arange(len(source)), numbers)
    train, test = splits.split(numbers, TEST_SHARE, seeding.generator(0, "test split"))
    how = f"{1 - TEST_SHARE:.0%} training, {TEST_SHARE:.0%} test of every class, drawn by us (seed 0)"
    return Task(name, definition, everything.take(train), everything.take(test), how, len(classes), path)


def _fewer(part: Labelled, number: int | None) -> Labelled:
    if number is None or number >= len(part.labels):
        return part
    ranks = splits.shuffled_ranks(part.labels, seeding.generator(0, "fewer pictures"))
    return part.take(ranks.argsort(stable=True)[:number].sort().values)


def _classes(labels: Tensor, name: str) -> Tensor:
    """-> [C] the labels that occur, sorted: class numbers may have gaps, places in this list have none."""
    classes = labels.unique()
    if len(classes) < 2:
        raise BadInput(f"{name} has {len(classes)} class; a probe needs at least two")
    return classes


def _class_name(source: Source, label: str, value: int) -> str:
    names = getattr(source, "class_names", {}).get(label, ())
    return f'"{names[value]}"' if 0 <= value < len(names) else str(value)
