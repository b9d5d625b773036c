"""Worker processes: they do pieces of work in order, ignore signals, and end with their parent."""

import atexit
import signal
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Protocol, TypeVar

import torch
from torch.utils.data import DataLoader

Item = TypeVar("Item", contravariant=True)
Result = TypeVar("Result", covariant=True)
AHEAD = 4  # pieces of work that each process may be ahead


class Work(Protocol[Item, Result]):
    def __getitem__(self, item: Item) -> Result: ...


def each(work: Work[Item, Result], items: Iterable[Item], *, num_workers: int) -> Iterator[Result]:
    """work[item] for each item, in order, by `num_workers` processes (0: this one); lazily, so the items may be endless."""
    if not num_workers:
        return (work[item] for item in items)
    loader: DataLoader[Any] = DataLoader(
        work,  # type: ignore[arg-type]
        sampler=items,
        batch_size=None,  # a piece of work is a whole batch already
        num_workers=num_workers,
        collate_fn=_unchanged,
        worker_init_fn=_ignore_signals,
        prefetch_factor=AHEAD,
        generator=torch.Generator(),  # the default would draw from the global one
    )
    return _results(loader)


def _results(loader: DataLoader[Any]) -> Iterator[Any]:
    results = iter(loader)
    end = partial(_end, results)
    # A traceback can keep this generator alive until Python exits, and Python waits for its processes before it frees them.
    atexit.register(end)
    try:
        yield from results
    finally:
        end()
        atexit.unregister(end)


def _end(results: Any) -> None:
    """Ends the processes. DataLoader asks them to stop, then sends SIGTERM, which they ignore; so we kill what is left."""
    results._shutdown_workers()
    for process in results._workers:
        if process.is_alive():
            process.kill()


def _unchanged(result: Any) -> Any:
    return result


def _ignore_signals(worker: int) -> None:
    """Ctrl-C, and SIGTERM from torchrun or a cluster, reach the whole group; only the parent may decide, save and stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
