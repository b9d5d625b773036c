"""Pixels on the screen of `scenes`, and boxes of pixels as rows of spans.

An object or a shadow is worked out only for the pixels of its own box, all boxes of all scenes in one array, and what
does not change along a line of the image is computed once a span.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openjepa.data.sources.scenes.world import Floats, Ints

VIEW = 0.35  # the shorter side of an image spans ±VIEW at depth 1; a longer side only sees more ground


@dataclass(frozen=True)
class Raster:
    """Pixels of an image and where they are on the screen."""

    height: int
    width: int

    @property
    def pitch(self) -> np.float32:
        return np.float32(2 * VIEW / min(self.height, self.width))

    def x(self, column: Ints) -> Floats:
        return (column.astype(np.float32) - np.float32(self.width / 2 - 0.5)) * self.pitch

    def y(self, row: Ints) -> Floats:
        return (np.float32(self.height / 2 - 0.5) - row.astype(np.float32)) * self.pitch

    def columns(self, left: Floats, right: Floats) -> tuple[Ints, Ints]:
        """Screen positions [O] -> the first column and the one after the last whose centres are between them."""
        return _between(left / self.pitch + self.width / 2, right / self.pitch + self.width / 2, self.width)

    def lines(self, bottom: Floats, top: Floats) -> tuple[Ints, Ints]:
        return _between(self.height / 2 - top / self.pitch, self.height / 2 - bottom / self.pitch, self.height)


def _between(low: Floats, high: Floats, size: int) -> tuple[Ints, Ints]:
    first, last = (np.clip(np.ceil(edge - 0.5), 0, size).astype(np.int64) for edge in (low, high))
    return first, np.maximum(first, last)


@dataclass(frozen=True)
class Spans:
    """Boxes of pixels as R horizontal spans with F pixels in all."""

    item: Ints  # [R] whose box
    row: Ints  # [R]
    width: Ints  # [R]
    column: Ints  # [F]

    def spread(self, values: NDArray) -> NDArray:
        """[R] -> [F]: a value of each span for each of its pixels."""
        return np.repeat(values, self.width)


def spans(columns: tuple[Ints, Ints], lines: tuple[Ints, Ints]) -> Spans:
    """Boxes [O], each from first to before last in both directions."""
    num_lines = lines[1] - lines[0]
    item = np.repeat(np.arange(len(num_lines)), num_lines)  # [R]
    row = _count_up(lines[0], num_lines)
    width = (columns[1] - columns[0])[item]
    return Spans(item, row, width, _count_up(columns[0][item], width))


def _count_up(first: Ints, length: Ints) -> Ints:
    """[R], [R] -> [sum of lengths]: first, first + 1, … for each."""
    begins = np.cumsum(length) - length
    return np.arange(length.sum()) + np.repeat(first - begins, length)
