"""One process group at a time in a run folder: a second one is refused instead of mixing its files with the first's."""

from types import TracebackType
from typing import IO

from openjepa.core.errors import BadInput
from openjepa.runs.directory import RunFolder

try:
    import fcntl
except ImportError:  # Windows has no flock; there the folder is not guarded
    fcntl = None  # type: ignore[assignment]


class Lock:
    """`with Lock(folder):`; the operating system lets go when the process ends, however it ends."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._file: IO[str] | None = None

    def __enter__(self) -> "Lock":
        self.folder.path.mkdir(parents=True, exist_ok=True)
        self._file = (self.folder.path / ".lock").open("w")
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._file.close()
                raise BadInput(f"another process is working in {self.folder.path}; wait for it or stop it") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
