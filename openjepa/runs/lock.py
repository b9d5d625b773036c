"""One process group at a time in a folder: a second one is refused instead of mixing its files with the first's."""

from pathlib import Path
from types import TracebackType
from typing import IO

from openjepa.core.errors import BadInput

try:
    import fcntl
except ImportError:  # Windows has no flock; there the folder is not guarded
    fcntl = None  # type: ignore[assignment]


class Lock:
    """`with Lock(folder):`; the operating system lets go when the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: IO[str] | None = None

    def __enter__(self) -> "Lock":
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file = (self.folder / ".lock").open("w")
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._file.close()
                raise BadInput(f"another process is working in {self.folder}; wait for it or stop it") from None
        return self

    @property
    def files(self) -> tuple[int, ...]:
        """For a child: as long as it has these open, the folder is taken."""
        return (self._file.fileno(),) if self._file is not None else ()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
