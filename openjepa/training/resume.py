"""May this run resume, and from which checkpoint? Anything doubtful is an error; no run silently starts over."""

from pathlib import Path
from typing import Any

import yaml
from safetensors import safe_open

from openjepa.core import config as configs
from openjepa.core import settings
from openjepa.core.config import Config
from openjepa.core.errors import BadInput
from openjepa.machine import console
from openjepa.runs import checkpoint
from openjepa.runs.directory import RunFolder
from openjepa.training import setup

# Settings that do not change the weights.
HARMLESS = {
    "recipe",
    "data.workers",
    "data.cache",
    "data.max_broken",
    "train.checkpoint_every",
    "train.keep",
    "train.accumulate",
    "train.processes",
    "train.allocator",
    "watch",
    "imports",
}


def stored_config(folder: RunFolder) -> dict[str, Any]:
    return settings.read(folder.config)


def check_new(folder: RunFolder) -> None:
    if folder.path.exists() and not folder.path.is_dir():
        raise BadInput(f"{folder.path} is a file; --run needs a folder")
    if folder.holds_a_run:
        raise BadInput(f"{folder.path} already holds a run; add --resume to continue it, or use another --run folder")


def check_same(folder: RunFolder, config: Config, fingerprint: str, fingerprint_before: str | None) -> None:
    """Refuses another config (with the differences) and other data."""
    _refuse_difference(stored_config(folder), config, str(folder.path))
    if fingerprint_before is not None and fingerprint_before != fingerprint:
        raise BadInput(
            f"the data in {config.data.source} has changed since {folder.path} was started "
            f"(fingerprint {fingerprint_before[:12]}, now {fingerprint[:12]}); restore the data, or start a new run"
        )


def check_same_as_checkpoint(path: Path, config: Config) -> None:
    """Compares with the config inside the checkpoint, because somebody may have edited the run's config.yaml."""
    with safe_open(path / checkpoint.WEIGHTS, framework="pt") as file:
        stored = (file.metadata() or {}).get("config")
    if stored is not None:
        _refuse_difference(yaml.safe_load(stored), config, str(path))


def _refuse_difference(stored: dict[str, Any], config: Config, where: str) -> None:
    # Options that are newer than the run get their defaults, which reproduce the old behaviour.
    before, now = (yaml.safe_load(configs.dump(each)) for each in (setup.resolve(configs.load(stored)), config))
    rows = [row for row in settings.difference(before, now) if not _is_harmless(row[0])]
    if rows:
        lines = "\n".join(f"  {path}: {before!r} in the run, {after!r} now" for path, before, after in rows)
        raise BadInput(
            f"the config differs from that of {where}:\n{lines}\n"
            "use the run's own settings (openjepa pretrain --run DIR --resume), or start a new run"
        )


def _is_harmless(path: str) -> bool:
    return path in HARMLESS or path.startswith("monitors.")  # monitors change nothing


def newest_checkpoint(folder: RunFolder) -> Path | None:
    """Names damaged checkpoints; None when the run stopped before its first checkpoint."""
    path, damaged = checkpoint.newest_intact(folder.checkpoints)
    for error in damaged:
        console.notice(f"notice: {error}")
    if path is not None:
        if damaged:
            console.notice(f"notice: resuming from the newest intact checkpoint, {path.name}")
        return path
    if damaged:
        raise BadInput(f"{folder.checkpoints} holds no intact checkpoint; delete {folder.path} to start over")
    console.notice(f"{folder.path} has no checkpoint yet; starting at step 0")
    return None
