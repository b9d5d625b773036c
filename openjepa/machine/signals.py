"""A clean stop on SIGTERM and Ctrl-C: finish the step, save, exit. A second signal exits at once."""

import signal
import sys
import threading
from types import FrameType
from typing import Any

# What machine/launch.py sends to its processes. Some clusters send it before they end a job.
RELAY = signal.SIGTERM if sys.platform == "win32" else signal.SIGUSR1
_stops_at_once = True  # at a second signal
_handled = {signal.SIGTERM, signal.SIGINT, RELAY}


def obey_parent_only() -> None:
    """For a launched process: Ctrl-C and a cluster's SIGTERM reach the whole group, and only the parent may decide."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
        _handled.discard(number)
    signal.signal(RELAY, signal.default_int_handler)
    global _stops_at_once
    _stops_at_once = False  # a cluster's signal reaches this process directly and again through the parent


class Stop:
    """`with Stop() as stop:` … `if stop.is_requested`. It restores the earlier handlers at the end."""

    def __init__(self) -> None:
        self.is_requested = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Stop":
        if threading.current_thread() is not threading.main_thread():
            return self  # Python delivers signals to the main thread only
        for number in _handled:
            self._before[number] = signal.signal(number, self._request)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.is_requested and _stops_at_once:
            raise KeyboardInterrupt
        self.is_requested = True
