"""The images of one source, cropped in batches: one interface for files (`FileImages`) and for arrays (`ArrayImages`)."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, Protocol, TypeVar

import torch

from openjepa.core.errors import BrokenImage
from openjepa.data.crops.crop import Cropped, CropRequest, Crops
from openjepa.machine import distributed

T = TypeVar("T")
Cache = Literal["auto", "memory", "disk", "none", "if it fits"]  # the last one: memory or none, never the disk

MAX_NEIGHBOURS = 1000  # broken images in a row before giving up
CACHE_LIMIT = 4 * 2**30  # bytes of decoded images that `cache: auto` holds in memory …
CACHE_MEMORY_SHARE = 0.25  # … and at most this share of the memory that is free now


class Images(Protocol):
    @property
    def crops(self) -> Crops:
        """What is cut out of every image."""
        ...

    def __len__(self) -> int: ...

    def batches(self, requests: Iterable[CropRequest], device: torch.device) -> Iterator[Cropped]:
        """One `Cropped` for each request, in order; lazily, so the requests may be endless."""
        ...


def this_or_next_valid(index: int, num_images: int, decode: Callable[[int], T]) -> tuple[T | None, dict[str, str]]:
    """The image at this index or the next one that can be decoded, always the same; and path -> reason of those skipped."""
    broken: dict[str, str] = {}
    for neighbour in range(min(num_images, MAX_NEIGHBOURS)):
        try:
            return decode((index + neighbour) % num_images), broken
        except BrokenImage as error:
            broken[error.path] = error.reason
    return None, broken


def failure(broken: Mapping[str, str]) -> str:
    path, reason = next(iter(broken.items()))
    return (
        f"{len(broken)} images in a row cannot be decoded, the first is {path} ({reason}); "
        "list all of them with openjepa data check"
    )


def memory_limit() -> float:
    """Bytes of decoded images that this process may hold; other processes of the same run hold their own."""
    return min(CACHE_LIMIT, CACHE_MEMORY_SHARE * _free_memory() / distributed.local_processes())


def workers_of_process(num_workers: int, device: torch.device) -> int:
    """On a CPU the processes of a run share the decoding workers: more of them would only compete with training."""
    return num_workers // distributed.local_processes() if device.type == "cpu" else num_workers


def _free_memory() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # not a POSIX system
        return 8 * 2**30
