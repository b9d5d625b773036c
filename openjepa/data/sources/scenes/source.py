"""`scenes`: an endless CLEVR-like world that needs no download. Image i is a pure function of (seed, i, size).

CLEVR (Johnson et al. 2017) gave the idea, VTAB (Zhai et al. 2019) the tasks of counting and of telling the distance.
Whole batches are far faster than single images: 0.5 ms per image at 64 × 64 from `render`, 3 ms from `[index]`.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from openjepa.core.contracts import SourceRequest, sources
from openjepa.core.errors import BadInput
from openjepa.core.types import Sample
from openjepa.data.sources.scenes.layout import MIN_OBJECTS, Layout, layout
from openjepa.data.sources.scenes.render import paint
from openjepa.data.sources.scenes.world import (
    COLOURS,
    HALF_HEIGHT,
    MATERIALS,
    MAX_OBJECTS,
    SHAPES,
    Floats,
    Words,
    World,
)

VERSION = 1  # raise it whenever an image or a label changes: runs refuse to resume on other data
DEFAULT_SIZES = {"train": 20_000, "test": 4_000}
# The splits are parts of the same endless row of scenes, so far apart that they never meet.
FIRST = {"train": 0, "test": 2 * 10**9}
# Sixths of 20,000 scenes (seed 0), measured: each bin holds 16 to 17 % of them.
DISTANCE_EDGES = (7.43, 7.86, 8.22, 8.59, 9.02)


def _distance_names() -> tuple[str, ...]:
    between = [f"{low} to {high}" for low, high in itertools.pairwise(DISTANCE_EDGES)]
    return (f"under {DISTANCE_EDGES[0]}", *between, f"over {DISTANCE_EDGES[-1]}")


@dataclass(frozen=True)
class Scenes:
    """Scenes `first` to `first + num_images`, with the labels in `class_names`."""

    num_images: int
    size: tuple[int, int]  # height and width
    seed: int = 0
    first: int = 0

    class_names: ClassVar[dict[str, tuple[str, ...]]] = {
        "count": tuple(str(number) for number in range(MIN_OBJECTS, MAX_OBJECTS + 1)),
        "distance": _distance_names(),  # from the camera to the nearest object's centre
        "shape": SHAPES,  # this and the next two: of the object that shows most of itself
        "colour": COLOURS,
        "material": MATERIALS,
    }
    num_classes: ClassVar[dict[str, int]] = {label: len(names) for label, names in class_names.items()}

    def __post_init__(self) -> None:
        if self.num_images < 1:
            raise BadInput(f"scenes needs at least one image, not {self.num_images}")
        if min(self.size) < 8:
            raise BadInput(f"image size {self.size[0]}×{self.size[1]} is too small for scenes; use 8×8 or more")

    def __len__(self) -> int:
        return self.num_images

    def __getitem__(self, index: int) -> Sample:
        images, labels = self.render([index])
        return Sample(images[0], {name: int(values[0]) for name, values in labels.items()})

    def render(self, indices: Sequence[int]) -> tuple[Tensor, dict[str, Tensor]]:
        """Images [S, 3, h, w] uint8 and their labels, each [S] int64."""
        numbers = self._numbers(indices)
        scenes = layout(self.seed, numbers)
        images = paint(scenes.world, numbers, seed=self.seed, height=self.size[0], width=self.size[1])
        return torch.from_numpy(images), _labels(scenes)

    def labels(self, indices: Sequence[int]) -> dict[str, Tensor]:
        """The labels alone, each [S] int64; about five times faster than with the images."""
        return _labels(layout(self.seed, self._numbers(indices)))

    def all_labels(self) -> dict[str, Tensor]:
        return self.labels(range(self.num_images))

    def fingerprint(self) -> str:
        height, width = self.size
        return f"scenes v{VERSION}, seed {self.seed}, {self.num_images} from {self.first}, {height}×{width}"

    def identity(self, index: int) -> str:
        """What makes a scene what it is, without rendering it; the same scene in another size is still that scene."""
        return f"scenes v{VERSION}, seed {self.seed}, number {self.first + index}"

    def _numbers(self, indices: Sequence[int]) -> Words:
        """Indices in this source [S] -> numbers of scenes [S]."""
        numbers = np.asarray(indices, dtype=np.int64)
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < self.num_images:
            raise IndexError(f"scenes has images 0 to {self.num_images - 1}, not {numbers.min()} to {numbers.max()}")
        return (numbers + self.first).astype(np.uint64)


def _labels(scenes: Layout) -> dict[str, Tensor]:
    world, rows = scenes.world, np.arange(len(scenes.visible))
    largest = scenes.visible.argmax(axis=1)  # [S]
    labels = {
        "count": world.num_objects - MIN_OBJECTS,
        "distance": np.searchsorted(DISTANCE_EDGES, nearest_distance(world), side="right"),
        "shape": world.shape[rows, largest],
        "colour": world.colour[rows, largest],
        "material": world.is_metal[rows, largest],
    }
    return {name: torch.from_numpy(values) for name, values in labels.items()}


def nearest_distance(world: World) -> Floats:
    """[S]: from the camera to the centre of the nearest object."""
    x, y = (world.eye[:, None, axis] - world.position[:, :, axis] for axis in range(2))  # [S, 10]
    z = world.eye[:, None, 2] - world.radius * HALF_HEIGHT[world.shape]
    distance = np.sqrt(x * x + y * y + z * z)
    return np.where(world.is_used(), distance, np.float32(np.inf)).min(axis=1)


@sources.register("scenes")
def open_scenes(request: SourceRequest) -> Scenes:
    """`scenes` or `scenes:5000`, the number of images."""
    if request.split not in FIRST:
        raise BadInput(f'scenes has no split "{request.split}"; it has train and test')
    num_images = DEFAULT_SIZES[request.split] if request.path is None else _number(request.path)
    return Scenes(num_images, request.image_size, first=FIRST[request.split])


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= FIRST["test"]):
        raise BadInput(f'"scenes:{text}" needs a number of images from 1 to {FIRST["test"]}, such as scenes:5000')
    return int(text)
