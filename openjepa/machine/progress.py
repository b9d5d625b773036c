"""How long work says how far it is."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
Track = Callable[[Iterable[T], str, int], Iterable[T]]  # draws a progress bar: items, words, how many
