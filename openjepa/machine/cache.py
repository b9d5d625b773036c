"""The disk cache: tensors that could be recomputed, stored under the hash of everything they were computed from.

A key may also have one large file beside its tensors, for data that does not fit into memory: see `beside`.

OPENJEPA_CACHE is the folder, or `off` (default ~/.cache/openjepa); OPENJEPA_CACHE_GB is the size limit (default 10).
The cache deletes the least recently used keys first, and treats an unreadable file as missing.
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
TENSORS, LARGE = "safetensors", "bytes"  # file suffixes
PATIENCE = 24 * 3600.0  # seconds; a partial file older than this belongs to a dead process


def folder() -> Path | None:
    """The cache folder; None when the cache is off."""
    setting = os.environ.get("OPENJEPA_CACHE", "")
    if setting.lower() == "off":
        return None
    if setting:
        return Path(setting).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "openjepa"


def key(*parts: str) -> str:
    """A hash of these texts; other texts give another key."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


def load(name: str) -> dict[str, Tensor] | None:
    """The tensors of a key, or None."""
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
    with suppress(OSError):  # a read-only cache still works
        os.utime(path)  # used just now
    return tensors


def store(name: str, tensors: dict[str, Tensor]) -> bool:
    """Returns whether it worked: a full or read-only disk must not cost the work that was done."""
    path = _path(name)
    if path is None:
        return False
    unfinished = half_written(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({entry: tensor.contiguous() for entry, tensor in tensors.items()}, unfinished)
        os.replace(unfinished, path)
        _shrink(path.parent, keep=name)
    except (OSError, SafetensorError):
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        return False
    return True


def beside(name: str) -> Path | None:
    """The path of the large file of a key; valid once the key's tensors are stored, and deleted with them."""
    return _path(name, LARGE)


def half_written(path: Path) -> Path:
    """The file that this process writes and then renames to `path`; what a killed process leaves is deleted after a day."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def make_room(num_bytes: float) -> None:
    """Deletes the least recently used keys until `num_bytes` more are within the limit."""
    root = folder()
    if root is not None:
        _shrink(root, keep="", room=num_bytes)


def limit() -> float:
    """In bytes."""
    text = os.environ.get("OPENJEPA_CACHE_GB", str(DEFAULT_GB))
    try:
        return float(text) * 1e9
    except ValueError:
        raise BadInput(f'OPENJEPA_CACHE_GB is "{text}"; expected a number of gigabytes, such as 10') from None


def _path(name: str, suffix: str = TENSORS) -> Path | None:
    root = folder()
    return None if root is None else root / f"{name}.{suffix}"


def _shrink(root: Path, *, keep: str, room: float = 0.0) -> None:
    """Deletes the least recently used keys until the rest is within the limit, and what killed processes left."""
    for path in [*root.glob(f".*.{TENSORS}.*"), *root.glob(f".*.{LARGE}.*")]:
        with suppress(OSError):  # another process may have deleted it already
            if time.time() - path.stat().st_mtime > PATIENCE:
                path.unlink()
    entries = _entries(root)
    total = room + sum(size for _, size, _ in entries)
    for _, size, name in sorted(entries):
        if total > limit() and name != keep:
            total -= size
            _delete(root, name)


def _entries(root: Path) -> list[tuple[float, int, str]]:
    """(last used, bytes, name) of every key, its large file included."""
    used: dict[str, float] = defaultdict(float)
    sizes: dict[str, int] = defaultdict(int)
    for path in [*root.glob(f"[!.]*.{TENSORS}"), *root.glob(f"[!.]*.{LARGE}")]:
        with suppress(OSError):
            stat = path.stat()
            used[path.stem] = max(used[path.stem], stat.st_mtime)
            sizes[path.stem] += stat.st_size
    return [(used[name], sizes[name], name) for name in used]


def _delete(root: Path, name: str) -> None:
    """The tensors first: without them the large file is not valid."""
    for suffix in (TENSORS, LARGE):
        with suppress(OSError):
            (root / f"{name}.{suffix}").unlink(missing_ok=True)
