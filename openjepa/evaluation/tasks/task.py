"""The labelled images of a task, split into training and test; lookup.py says which task a name means."""

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from openjepa.core import seeding
from openjepa.core.contracts import Source
from openjepa.core.errors import BadInput, NoSuchSplit
from openjepa.data import splits
from openjepa.data.abilities import names_classes
from openjepa.data.open import open_source
from openjepa.evaluation.tasks.definition import Definition
from openjepa.evaluation.tasks.lookup import find

TEST_SHARE = 0.2  # of a source that has no test split of its own


@dataclass(frozen=True)
class Labelled:
    """Some images of a source, and their classes."""

    source: Source
    index: Tensor  # [S], in the source
    labels: Tensor  # [S]

    def take(self, rows: Tensor) -> "Labelled":
        return replace(self, index=self.index[rows], labels=self.labels[rows])


@dataclass(frozen=True, kw_only=True)
class Task:
    name: str  # as the user wrote it
    definition: Definition
    train: Labelled
    test: Labelled
    split: str  # how training and test images were separated
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
    """With `num_train` and `num_test` a class-balanced part of the images, the same every time."""
    definition, path = find(spec, root)
    for name, number in (("num_train", num_train), ("num_test", num_test)):
        if number is not None and number < 1:
            raise BadInput(f"{name} is {number}; expected 1 or more images")
    if definition.is_embedded:
        specs = [_spec(definition, path if number is None else str(number)) for number in (num_train, num_test)]
        train = open_source(specs[0], split=definition.train, image_size=image_size)
        test = open_source(specs[1], split=definition.test, image_size=image_size)
        return _task(spec, definition, path, train, test)
    source = _spec(definition, path)
    train = open_source(source, split=definition.train, image_size=image_size)
    try:
        opened = _task(spec, definition, path, train, _open_test(source, definition, image_size))
    except NoSuchSplit:
        opened = _split(spec, definition, path, train)
    if num_train is not None and num_train < opened.num_classes:
        raise BadInput(f"num_train is {num_train}, but {spec} has {opened.num_classes} classes; use at least that many")
    return replace(opened, train=_fewer(opened.train, num_train), test=_fewer(opened.test, num_test))


def _open_test(source: str, definition: Definition, image_size: tuple[int, int]) -> Source:
    """Competitions publish test images without labels; the validation images replace them."""
    test = open_source(source, split=definition.test, image_size=image_size)
    if definition.label not in test.all_labels() and definition.test != "val":
        with suppress(NoSuchSplit):
            return open_source(source, split="val", image_size=image_size)
    return test


def labels_of(source: Source, label: str, name: str) -> Tensor:
    """-> [S] classes."""
    labels = source.all_labels()
    if label not in labels:
        none = "it has none; a folder needs two or more sub-folders, one per class, and every image in one of them"
        known = f"it has {', '.join(labels)}" if labels else none
        raise BadInput(f'{name} has no label "{label}"; {known}')
    return labels[label]


def _spec(definition: Definition, path: str | None) -> str:
    return definition.source if path is None else f"{definition.source}:{path}"


def _task(name: str, definition: Definition, path: str | None, train: Source, test: Source) -> Task:
    train_labels, test_labels = (labels_of(source, definition.label, name) for source in (train, test))
    unseen = sorted(set(test_labels.tolist()) - set(train_labels.tolist()))
    if unseen:
        raise BadInput(
            f"class {_class_name(train, definition.label, unseen[0])} of {name} has test images but no training "
            "images; add training images, or remove its test images"
        )
    classes = _classes(train_labels, name)
    return Task(
        name=name,
        definition=definition,
        train=Labelled(train, torch.arange(len(train)), torch.searchsorted(classes, train_labels)),
        test=Labelled(test, torch.arange(len(test)), torch.searchsorted(classes, test_labels)),
        split="the data set's own",
        num_classes=len(classes),
        path=path,
    )


def _split(name: str, definition: Definition, path: str | None, source: Source) -> Task:
    """A class-balanced split of one source, the same every time."""
    labels = labels_of(source, definition.label, name)
    classes = _classes(labels, name)
    numbers = torch.searchsorted(classes, labels)
    single = (numbers.bincount() == 1).nonzero()
    if len(single):
        raise BadInput(
            f"class {_class_name(source, definition.label, int(classes[single[0]]))} of {name} has one image only; a "
            "split into training and test needs two or more"
        )
    everything = Labelled(source, torch.arange(len(source)), numbers)
    train, test = splits.split(numbers, TEST_SHARE, seeding.generator(0, "test split"))
    return Task(
        name=name,
        definition=definition,
        train=everything.take(train),
        test=everything.take(test),
        split=f"{1 - TEST_SHARE:.0%} training, {TEST_SHARE:.0%} test of every class, drawn by us (seed 0)",
        num_classes=len(classes),
        path=path,
    )


def _fewer(part: Labelled, number: int | None) -> Labelled:
    if number is None or number >= len(part.labels):
        return part
    ranks = splits.shuffled_ranks(part.labels, seeding.generator(0, "fewer pictures"))
    return part.take(ranks.argsort(stable=True)[:number].sort().values)


def _classes(labels: Tensor, name: str) -> Tensor:
    """-> [C] the labels that occur, sorted: labels may have gaps, positions in this list have none."""
    classes = labels.unique()
    if len(classes) < 2:
        raise BadInput(f"{name} has {len(classes)} class; a probe needs at least two")
    return classes


def _class_name(source: Source, label: str, value: int) -> str:
    names = source.class_names.get(label, ()) if names_classes(source) else ()
    return f'"{names[value]}"' if 0 <= value < len(names) else str(value)
