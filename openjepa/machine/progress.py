"""The type of a function that shows progress; rooms that cannot import the console receive one."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
Track = Callable[[Iterable[T], str, int], Iterable[T]]  # shows a progress bar: items, label, total
