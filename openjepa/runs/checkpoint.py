"""Checkpoints are complete or absent: written to a partial folder, synced, renamed; checked by sha256 before loading.

A checkpoint is a folder `step-00012000` with weights.safetensors (the method), state.pt (the optimiser; loads with
weights_only) and manifest.json (sizes and hashes of both).
"""

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from openjepa.core.errors import BadInput

WEIGHTS, STATE, MANIFEST = "weights.safetensors", "state.pt", "manifest.json"
PARTIAL = ".partial"


class DamagedCheckpoint(BadInput):
    """Names the folder and the damage."""


@dataclass(frozen=True)
class Checkpoint:
    step: int
    weights: dict[str, Tensor]
    optimizer: dict[str, Any]


def save(folder: Path, checkpoint: Checkpoint, *, metadata: dict[str, str], keep: int) -> Path:
    """Writes `folder`/step-…, then removes all but the newest `keep`."""
    final = folder / f"step-{checkpoint.step:08d}"
    partial = folder / f"{PARTIAL}-{final.name}"
    _remove_partial(folder)
    partial.mkdir(parents=True)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.weights.items()}
    save_file(weights, partial / WEIGHTS, metadata=metadata)
    torch.save({"step": checkpoint.step, "optimizer": checkpoint.optimizer}, partial / STATE)
    _write_manifest(partial, checkpoint.step)
    for path in (partial / WEIGHTS, partial / STATE, partial / MANIFEST, partial):
        _sync(path)
    if final.exists():  # a damaged one of the same step, skipped by a resume
        shutil.rmtree(final)
    os.replace(partial, final)
    _sync(folder)
    known = steps(folder)
    newer = [path for path in known if path.name > final.name]  # damaged ones, skipped by a resume
    for path in [*newer, *[path for path in known if path not in newer][:-keep]]:
        shutil.rmtree(path)
    return final


def steps(folder: Path) -> list[Path]:
    """The checkpoint folders, oldest first."""
    return sorted(path for path in folder.glob("step-*") if path.is_dir())


def load(path: Path) -> Checkpoint:
    """Refuses a damaged checkpoint by name. Executes no code from the files."""
    verify(path)
    state = torch.load(path / STATE, weights_only=True, map_location="cpu")
    return Checkpoint(state["step"], load_file(path / WEIGHTS), state["optimizer"])


def newest_intact(folder: Path) -> tuple[Path | None, list[DamagedCheckpoint]]:
    """The newest checkpoint that passes its check, and the newer ones that do not."""
    damaged = []
    for path in reversed(steps(folder)):
        try:
            verify(path)
        except DamagedCheckpoint as error:
            damaged.append(error)
        else:
            return path, damaged
    return None, damaged


def verify(path: Path) -> None:
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        files = {name: (entry["bytes"], entry["sha256"]) for name, entry in manifest["files"].items()}
    except FileNotFoundError:
        raise DamagedCheckpoint(f"checkpoint {path} has no {MANIFEST}") from None
    except (ValueError, KeyError, TypeError, AttributeError, UnicodeDecodeError):
        raise DamagedCheckpoint(f"checkpoint {path} has an unreadable {MANIFEST}") from None
    for name in (WEIGHTS, STATE):
        _verify_file(path / name, files.get(name))


def _verify_file(path: Path, expected: tuple[int, str] | None) -> None:
    if expected is None:
        raise DamagedCheckpoint(f"checkpoint {path.parent} is damaged: its {MANIFEST} does not name {path.name}")
    if not path.is_file():
        raise DamagedCheckpoint(f"checkpoint {path.parent} is damaged: {path.name} is missing")
    size = path.stat().st_size
    if size != expected[0]:
        raise DamagedCheckpoint(f"checkpoint {path.parent} is damaged: {path.name} has {size} bytes, not {expected[0]}")
    if _sha256(path) != expected[1]:
        raise DamagedCheckpoint(f"checkpoint {path.parent} is damaged: the contents of {path.name} have changed")


def _write_manifest(folder: Path, step: int) -> None:
    files = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": _sha256(folder / name)} for name in (WEIGHTS, STATE)
    }
    (folder / MANIFEST).write_text(json.dumps({"step": step, "files": files}, indent=1), encoding="utf-8")


def _remove_partial(folder: Path) -> None:
    """Removes what a killed process left."""
    for path in folder.glob(f"{PARTIAL}-*"):
        shutil.rmtree(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    """Flushes a file, or a folder, to disk, so that the rename survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
