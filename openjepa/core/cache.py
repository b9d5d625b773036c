"""Tensors that could be computed again, kept on disk under the hash of everything they were computed from.

OPENJEPA_CACHE says where (a folder, or `off`; else ~/.cache/openjepa), OPENJEPA_CACHE_GB how much may lie there (else 10).
What has not been used for longest goes first. A file that cannot be read is as good as none.
"""

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from openjepa.core.errors import BadInput

DEFAULT_GB = 10.0
PATIENCE = 24 * 3600.0  # seconds after which a half-written file belongs to a process that died


def folder() -> Path | None:
    """Where the cache lies; None when it is switched off."""
    given = os.environ.get("OPENJEPA_CACHE", "")
    if given.lower() == "off":
        return None
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "openjepa"


def key(*parts: str) -> str:
    """A name for what these words describe; another word, another name."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


def load(name: str) -> dict[str, Tensor] | None:
    """What was stored under a key, or None."""
    path = _path(name)
    if path is None or not path.exists():
        return None
    try:
        tensors = load_file(path)
    except OSError:
        return None
    except SafetensorError:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return None
    with suppress(OSError):  # a cache that may only be read is a cache all the same
        os.utime(path)  # used just now
    return tensors


def store(name: str, tensors: dict[str, Tensor]) -> bool:
    """Whether it could be kept: a full or read-only disk is no reason to lose the work that was done."""
    path = _path(name)
    if path is None:
        return False
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, beside)
        os.replace(beside, path)
        _shrink(path.parent, keep=path)
    except (OSError, SafetensorError):
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        return False
    return True


def limit() -> float:
    """In bytes."""
    text = os.environ.get("OPENJEPA_CACHE_GB", str(DEFAULT_GB))
    try:
        return float(text) * 1e9
    except ValueError:
        raise BadInput(f'OPENJEPA_CACHE_GB is "{text}"; expected a number of gigabytes, such as 10') from None


def _path(name: str) -> Path | None:
    place = folder()
    return None if place is None else place / f"{name}.safetensors"


def _shrink(place: Path, *, keep: Path) -> None:
    """Deletes what has not been used for longest until the rest is within the limit, and what killed processes left."""
    for path in place.glob(".*.safetensors.*"):
        with suppress(OSError):  # another process may have been quicker
            if time.time() - path.stat().st_mtime > PATIENCE:
                path.unlink()
    files = []
    for path in place.glob("*.safetensors"):
        with suppress(OSError):
            found = path.stat()
            files.append((found.st_mtime, found.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total > limit() and path != keep:
            total -= size
            with suppress(OSError):
                path.unlink()
