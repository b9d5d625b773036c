"""A task: labelled training and test pictures, one label of them. `scenes-*` are embedded; any labelled source is one too."""

from dataclasses import dataclass

import torch
from torch import Tensor

from openjepa.core import seeding
from openjepa.core.contracts import Source
from openjepa.core.errors import BadInput, NoSuchSplit
from openjepa.core.registry import did_you_mean
from openjepa.data.spec import open_source

SCENES = {
    "scenes-count": "count",  # how many objects, 8 classes
    "scenes-dist": "distance",  # how near the nearest one is, 6 bins
    "scenes-shape": "shape",  # what the largest one is
    "scenes-colour": "colour",
    "scenes-material": "material",
}
TEST_SHARE = 0.2  # of a source that has no test split of its own


@dataclass(frozen=True)
class Labelled:
    """A source, some places in it, and their classes."""

    source: Source
    index: Tensor  # [S]
    labels: Tensor  # [S]


@dataclass(frozen=True)
class Task:
    name: str
    train: Labelled
    test: Labelled
    num_classes: int


def open_task(
    name: str, *, image_size: tuple[int, int], num_train: int | None = None, num_test: int | None = None
) -> Task:
    """`scenes-count` and its kin, or any labelled source such as `cifar10:DIR` or a folder of class folders."""
    if name in SCENES:
        train = open_source(_scenes(num_train), image_size=image_size)
        test = open_source(_scenes(num_test), split="test", image_size=image_size)
        return _task(name, train, test, SCENES[name])
    try:
        source = open_source(name, image_size=image_size)
    except BadInput as error:
        if ":" in name or "/" in name:
            raise
        raise BadInput(f'unknown task "{name}"{did_you_mean(name, SCENES)} ({error})') from None
    try:
        return _task(name, source, open_source(name, split="test", image_size=image_size), "class")
    except NoSuchSplit:
        return _split(name, source)


def _scenes(num_images: int | None) -> str:
    return "scenes" if num_images is None else f"scenes:{num_images}"


def _task(name: str, train: Source, test: Source, label: str) -> Task:
    labelled = [Labelled(source, torch.arange(len(source)), labels_of(source, label)) for source in (train, test)]
    return Task(name, labelled[0], labelled[1], _num_classes(labelled[0].labels, name))


def _split(name: str, source: Source) -> Task:
    """A class-balanced split of one source, the same every time."""
    labels = labels_of(source, "class")
    order = torch.randperm(len(labels), generator=seeding.generator(0, "test split"))
    rank = torch.empty_like(order)
    for value in labels.unique():
        members = order[labels[order] == value]
        if len(members) < 2:
            raise BadInput(
                f"{name} has a class with one picture only; a split into training and test needs two or more"
            )
        rank[members] = torch.arange(len(members))
        rank[members] = (rank[members] < max(round(TEST_SHARE * len(members)), 1)).long()
    test, train = (rank == 1).nonzero().squeeze(1), (rank == 0).nonzero().squeeze(1)
    return Task(
        name, Labelled(source, train, labels[train]), Labelled(source, test, labels[test]), _num_classes(labels, name)
    )


def labels_of(source: Source, label: str) -> Tensor:
    """-> [S] classes."""
    labels = source.all_labels()
    if label not in labels:
        known = f"it has {', '.join(labels)}" if labels else "it has none; put the pictures into one folder per class"
        raise BadInput(f'the source has no label "{label}"; {known}')
    return labels[label]


def _num_classes(labels: Tensor, name: str) -> int:
    classes = len(labels.unique())
    if classes < 2:
        raise BadInput(f"{name} has {classes} class; a probe needs at least two")
    return int(labels.max()) + 1
