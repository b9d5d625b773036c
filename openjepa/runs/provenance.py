"""provenance.json: what produced a run. Versions, commit, machine, command, data fingerprint, status.

The only file that reads and writes it; everybody else gets a Provenance.
"""

import json
import os
import platform
import shlex
import subprocess
import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from openjepa.core.errors import BadInput
from openjepa.runs import records
from openjepa.runs.directory import RunFolder, write_json

PACKAGES = ("openjepa", "torch", "numpy", "pillow", "safetensors", "pydantic")


@dataclass(frozen=True, kw_only=True)
class Machine:
    system: str = ""
    processor: str = ""
    cores: int | None = None
    threads: int | None = None
    gpus: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)  # keys of other versions


@dataclass(frozen=True, kw_only=True)
class Data:
    source: str = ""
    fingerprint: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Every field has a default, because older versions did not write all of them."""

    status: str = ""  # running, finished, stopped or failed
    started: str = ""
    command: str = ""
    commit: str | None = None
    versions: dict[str, str | None] = field(default_factory=dict)
    machine: Machine = field(default_factory=Machine)
    processes: int = 1
    precision: str = ""
    data: Data = field(default_factory=Data)
    minutes: float | None = None  # the time budget, if the run has one
    steps: int | None = None  # these three are None until the run stops
    ended: str | None = None
    peak_memory_mib: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def collect(*, data: str, fingerprint: str, world_size: int, precision: str, minutes: float | None) -> Provenance:
    """The provenance of a run that starts now, in this process."""
    return Provenance(
        status="running",
        started=now(),
        command=shlex.join(sys.argv),
        commit=commit(),
        versions={"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        machine=machine(),
        processes=world_size,
        precision=precision,
        data=Data(source=data, fingerprint=fingerprint),
        minutes=minutes,
    )


def read(folder: RunFolder) -> Provenance:
    path = folder.provenance
    try:
        return records.load(Provenance, json.loads(path.read_text(encoding="utf-8")), where="provenance")
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read {path} ({error}); restore the file, or start a new run") from None


def write(folder: RunFolder, record: Provenance) -> None:
    values = records.dump(record)
    for name in ("steps", "ended", "peak_memory_mib"):
        if values[name] is None:
            del values[name]
    write_json(folder.provenance, values)


def status(folder: RunFolder) -> str:
    """running, finished, stopped or failed; empty when there is no run or its file is damaged."""
    try:
        return read(folder).status
    except BadInput:
        return ""


def set_status(folder: RunFolder, status: str) -> None:
    write(folder, replace(read(folder), status=status))


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


def machine() -> Machine:
    return Machine(
        system=platform.platform(),
        processor=_processor(),
        cores=os.cpu_count(),
        threads=torch.get_num_threads(),
        gpus=tuple(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())),
    )


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
