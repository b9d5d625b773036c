"""provenance.json: what produced a run. Versions, commit, machine, command, data fingerprint, status."""

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from openjepa.runs.directory import RunFolder

PACKAGES = ("openjepa", "torch", "numpy", "pillow", "safetensors", "pydantic")


def collect(*, data: str, fingerprint: str, world_size: int, precision: str) -> dict[str, Any]:
    return {
        "status": "running",
        "started": now(),
        "command": " ".join(sys.argv),
        "commit": commit(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "machine": machine(),
        "processes": world_size,
        "precision": precision,
        "data": {"source": data, "fingerprint": fingerprint},
    }


def status(folder: RunFolder) -> str:
    """running, finished, stopped or failed; nothing where there is no run."""
    try:
        return str(json.loads(folder.provenance.read_text(encoding="utf-8"))["status"])
    except (OSError, ValueError, KeyError):
        return ""


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """The commit of the source tree this code runs from, with a + when it has uncommitted changes; None outside git."""
    here = Path(__file__).parent
    try:
        head = _git(here, "rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git(here, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def machine() -> dict[str, Any]:
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": gpus,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
