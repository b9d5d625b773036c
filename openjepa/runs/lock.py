"""One process group at a time in a folder: a second one gets an error instead of mixing its files with the first's.

Not `filelock`, which the rest of the package uses: it unlocks when the owner leaves. This lock must survive its owner: a
study passes the open file to its runs, and while one of them lives, a second study cannot start in the same folder.
"""

from pathlib import Path
from typing import IO

from openjepa.core.errors import BadInput

try:
    import fcntl
except ImportError:  # Windows has no flock; there the folder is not locked
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"


class Lock:
    """`with Lock(folder):`; the operating system releases it when the last process that has the file open ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: IO[str] | None = None
        self._is_new = False  # whether the folder was made here

    def __enter__(self) -> "Lock":
        self._is_new = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file = (self.folder / NAME).open("w")
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._file.close()
                raise BadInput(f"another process is working in {self.folder}; wait for it or stop it") from None
        return self

    @property
    def files(self) -> tuple[int, ...]:
        """Descriptors for a child process: the folder stays locked as long as the child has them open."""
        return (self._file.fileno(),) if self._file is not None else ()

    def __exit__(self, *_: object) -> None:
        """A new folder in which nothing was written is removed."""
        if self._file is not None:
            self._file.close()
        if self._is_new and [path.name for path in self.folder.iterdir()] == [NAME]:
            (self.folder / NAME).unlink()
            self.folder.rmdir()
