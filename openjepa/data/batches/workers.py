"""Decoding processes: how they are given work, leave signals to their parent, and end when it says so or is gone."""

import signal
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

import torch
from torch.utils.data import DataLoader

Given = TypeVar("Given", contravariant=True)
Made = TypeVar("Made", covariant=True)
AHEAD = 4  # pieces of work that each process may be ahead


class Work(Protocol[Given, Made]):
    def __getitem__(self, item: Given) -> Made: ...


def each(work: Work[Given, Made], items: Iterable[Given], *, num_workers: int) -> Iterator[Made]:
    """work[item] for each item, in order, by so many processes (0: this one); lazily, so the items may go on for ever."""
    if not num_workers:
        return (work[item] for item in items)
    loader: DataLoader[Any] = DataLoader(
        work,  # type: ignore[arg-type]
        sampler=items,
        batch_size=None,  # a piece of work is a whole batch already
        num_workers=num_workers,
        collate_fn=_as_it_is,
        worker_init_fn=start,
        prefetch_factor=AHEAD,
        generator=torch.Generator(),  # or it would draw from the global one, of which nothing here depends
    )
    return iter(loader)


def _as_it_is(made: Any) -> Any:
    return made


def start(worker: int) -> None:
    """Ctrl-C, and SIGTERM from torchrun or a cluster, go to the whole group; only the parent may decide, save and stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
