"""Tensors that could be computed again, kept on disk under the hash of everything they were computed from.

A key may have a file beside its tensors that is too large to be written or read at once: see `beside`.

OPENJEPA_CACHE says where (a folder, or `off`; else ~/.cache/openjepa), OPENJEPA_CACHE_GB how much may lie there (else 10).
What has not been used for longest goes first. A file that cannot be read is as good as none.
"""

import hashlib
import os
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from openjepa.core.errors import BadInput

DEFAULT_GB = 10.0
TENSORS, LARGE = "safetensors", "bytes"  # how files are called behind the dot
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
    unfinished = half_written(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({word: tensor.contiguous() for word, tensor in tensors.items()}, unfinished)
        os.replace(unfinished, path)
        _shrink(path.parent, keep=name)
    except (OSError, SafetensorError):
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        return False
    return True


def beside(name: str) -> Path | None:
    """Where the large file of a key lies; it counts once the key's tensors are stored, and goes with them."""
    return _path(name, LARGE)


def half_written(path: Path) -> Path:
    """Where this process writes what will be renamed to `path` when it is whole; left by a killed process, it goes after a day."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def make_room(num_bytes: float) -> None:
    """Deletes what has not been used for longest until so much more is within the limit."""
    place = folder()
    if place is not None:
        _shrink(place, keep="", room=num_bytes)


def limit() -> float:
    """In bytes."""
    text = os.environ.get("OPENJEPA_CACHE_GB", str(DEFAULT_GB))
    try:
        return float(text) * 1e9
    except ValueError:
        raise BadInput(f'OPENJEPA_CACHE_GB is "{text}"; expected a number of gigabytes, such as 10') from None


def _path(name: str, suffix: str = TENSORS) -> Path | None:
    place = folder()
    return None if place is None else place / f"{name}.{suffix}"


def _shrink(place: Path, *, keep: str, room: float = 0.0) -> None:
    """Deletes what has not been used for longest until the rest is within the limit, and what killed processes left."""
    for path in [*place.glob(f".*.{TENSORS}.*"), *place.glob(f".*.{LARGE}.*")]:
        with suppress(OSError):  # another process may have been quicker
            if time.time() - path.stat().st_mtime > PATIENCE:
                path.unlink()
    held = _held(place)
    total = room + sum(size for _, size, _ in held)
    for _, size, name in sorted(held):
        if total > limit() and name != keep:
            total -= size
            _delete(place, name)


def _held(place: Path) -> list[tuple[float, int, str]]:
    """(last used, bytes, name) of every key; what belongs to one key lives and goes together."""
    used: dict[str, float] = defaultdict(float)
    sizes: dict[str, int] = defaultdict(int)
    for path in [*place.glob(f"[!.]*.{TENSORS}"), *place.glob(f"[!.]*.{LARGE}")]:
        with suppress(OSError):
            found = path.stat()
            used[path.stem] = max(used[path.stem], found.st_mtime)
            sizes[path.stem] += found.st_size
    return [(used[name], sizes[name], name) for name in used]


def _delete(place: Path, name: str) -> None:
    """The tensors first: without them, what lies beside does not count."""
    for suffix in (TENSORS, LARGE):
        with suppress(OSError):
            (place / f"{name}.{suffix}").unlink(missing_ok=True)
