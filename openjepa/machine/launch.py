"""Runs a function in several processes of this machine that form one process group, as torchrun would; rank 0's result comes back.

torch.multiprocessing starts the processes. The parent computes nothing: it relays signals, and when one process fails it
ends the others and raises that one error.
"""

import importlib
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import ProcessContext, ProcessRaisedException, start_processes

from openjepa.core.errors import OpenJepaError
from openjepa.machine import signals
from openjepa.machine.arrangement import Arrangement

HOST = "127.0.0.1"
POLL = 0.2  # seconds
GRACE = 2.0  # seconds in which the others may end by themselves after one has failed
READY = "ready"


class TookTooLong(OpenJepaError):
    """The processes did not return within the given time."""


@dataclass(frozen=True)
class Job:
    """What every process receives."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    arrangement: Arrangement
    port: int
    folder: str  # multiprocessing starts processes in the folder in which the parent started
    modules: Sequence[str]  # that register parts of one's own
    senders: Sequence[Connection]  # by rank


def is_possible() -> bool:
    """Not inside torchrun, a launched process, or a worker process that may not start others; not on Windows (no gloo)."""
    is_free = "RANK" not in os.environ and not multiprocessing.current_process().daemon
    return is_free and sys.platform != "win32" and dist.is_available()


def run(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    arrangement: Arrangement,
    *,
    modules: Sequence[str] = (),
    seconds: float = float("inf"),
) -> Any:
    """function(*arguments) in each process; `modules` are imported there first. Raises what the first failing one raised."""
    spawn = multiprocessing.get_context("spawn")
    pipes = [spawn.Pipe(duplex=False) for _ in range(arrangement.processes)]
    store = dist.TCPStore(HOST, 0, is_master=True, wait_for_workers=False)  # here, so that nobody else takes the port
    senders = tuple(sender for _, sender in pipes)
    job = Job(function, arguments, arrangement, store.port, os.getcwd(), tuple(modules), senders)
    with _start_quietly(arrangement.threads):
        context = start_processes(_child, (job,), arrangement.processes, join=False)
    group = _Group(context, [receiver for receiver, _ in pipes])
    try:
        with signals.Stop() as stop:
            return group.result(stop, time.monotonic() + seconds)
    finally:
        group.end()
        for sender in senders:
            sender.close()


@dataclass
class _Group:
    """The processes, and what each has reported: ("result", value) or ("error", exception)."""

    context: ProcessContext
    receivers: list[Connection]
    ready: set[int] = field(default_factory=set)
    reports: dict[int, tuple[str, Any]] = field(default_factory=dict)

    def result(self, stop: signals.Stop, ends: float) -> Any:
        is_relayed = False
        while self._alive() and not self._has_failed():
            wait([*(process.sentinel for process in self._alive()), *self.receivers], POLL)
            self._receive()
            if stop.is_requested and not is_relayed:
                is_relayed = True
                self._relay()
            if time.monotonic() > ends:
                raise TookTooLong("no result in time")
        self._wait(GRACE)
        if self.reports.get(0, ("",))[0] == "result":
            return self.reports[0][1]
        raise self._error()

    def end(self) -> None:
        for process in self._alive():
            process.kill()
        for process in self.context.processes:
            process.join()
        for receiver in self.receivers:
            receiver.close()

    def _has_failed(self) -> bool:
        """One reported an error, or ended without a report."""
        ended = [rank for rank, process in enumerate(self.context.processes) if not process.is_alive()]
        self._receive()
        return any(rank not in self.reports for rank in ended) or any(
            kind == "error" for kind, _ in self.reports.values()
        )

    def _alive(self) -> list[Any]:
        return [process for process in self.context.processes if process.is_alive()]

    def _receive(self) -> None:
        for rank, receiver in enumerate(self.receivers):
            while rank not in self.reports and receiver.poll():
                report = receiver.recv()
                if report == READY:
                    self.ready.add(rank)
                else:
                    self.reports[rank] = report

    def _relay(self) -> None:
        """Before all are ready there is nothing to save."""
        if len(self.ready) < len(self.receivers):
            raise KeyboardInterrupt
        for process in self._alive():
            os.kill(process.pid, signals.RELAY)

    def _wait(self, seconds: float) -> None:
        """For the reports of all, because the clearest error may not be the first."""
        ends = time.monotonic() + seconds
        while self._alive() and time.monotonic() < ends:
            wait([process.sentinel for process in self._alive()], POLL)
            self._receive()
        self._receive()

    def _error(self) -> BaseException:
        """What a process reported, or how the first one died: the others then fail too, because they wait for it."""
        errors = [value for _, (kind, value) in sorted(self.reports.items()) if kind == "error"]
        if errors:
            return errors[0]
        codes = {rank: process.exitcode for rank, process in enumerate(self.context.processes)}
        for rank, code in codes.items():
            if code is not None and code < 0:
                return OpenJepaError(
                    f"training process {rank} was killed by signal {-code} (out of memory?); the others ended"
                )
        first = self._first_with_a_traceback()
        rank = next(rank for rank, code in codes.items() if code is not None) if first is None else first
        try:
            with open(self.context.error_files[rank], "rb") as file:
                return ProcessRaisedException(f"\n{pickle.load(file)}", rank, self.context.processes[rank].pid)
        except OSError:
            return OpenJepaError(f"training process {rank} ended with exit code {codes[rank]} and without a result")

    def _first_with_a_traceback(self) -> int | None:
        times = {
            rank: os.path.getmtime(file) for rank, file in enumerate(self.context.error_files) if os.path.exists(file)
        }
        return min(times, key=lambda rank: times[rank], default=None)


def _child(rank: int, job: Job) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signals.obey_parent_only()
    sender = job.senders[rank]
    try:
        os.chdir(job.folder)
        os.environ.update(_variables(rank, job))
        torch.set_num_threads(job.arrangement.threads)
        for module in job.modules:
            importlib.import_module(module)
        sender.send(READY)
        report = ("result", job.function(*job.arguments))
        sender.send(report if rank == 0 else ("result", None))
    except (OpenJepaError, OSError, KeyboardInterrupt) as error:
        sender.send(("error", error))
    finally:
        for worker in multiprocessing.active_children():
            worker.kill()  # decoding workers ignore SIGTERM, with which multiprocessing would end them


def _variables(rank: int, job: Job) -> dict[str, str]:
    """As torchrun sets them, none for one process; the parent has the store. Loopback: a machine's own name may not resolve."""
    if job.arrangement.processes == 1:
        return {}
    processes = str(job.arrangement.processes)
    loopback = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": processes,
        "LOCAL_WORLD_SIZE": processes,
        "MASTER_ADDR": HOST,
        "MASTER_PORT": str(job.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        **({"GLOO_SOCKET_IFNAME": loopback[0]} if loopback else {}),
    }


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def _start_quietly(threads: int) -> Iterator[None]:
    """New processes inherit three things: ignored signals, until they can handle them; the number of threads; and an empty
    main module, because multiprocessing would run a plain script a second time."""
    is_main_thread = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main_thread else ()
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    main, before = sys.modules["__main__"], os.environ.get("OMP_NUM_THREADS")
    sys.modules["__main__"] = ModuleType("__main__")
    os.environ["OMP_NUM_THREADS"] = str(threads)
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        os.environ.pop("OMP_NUM_THREADS")
        if before is not None:
            os.environ["OMP_NUM_THREADS"] = before
        for number, handler in handlers.items():
            signal.signal(number, handler)
