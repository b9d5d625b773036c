"""One process at a time: for files that several may change, on one machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no flock; there nothing is guarded
    fcntl = None  # type: ignore[assignment]


@contextmanager
def one_at_a_time(file: Path) -> Iterator[None]:
    """Waits until no other process holds this lock file; the operating system lets go when a process ends, however it ends."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as opened:
        if fcntl is not None:
            fcntl.flock(opened, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if fcntl is not None:  # closing is not enough: processes forked meanwhile hold the file open, too
                fcntl.flock(opened, fcntl.LOCK_UN)
