"""May this run be continued, and from where? Anything doubtful is refused with a sentence; nothing is silently started over."""

from pathlib import Path
from typing import Any

import yaml

from openjepa.app import console
from openjepa.core import config as configs
from openjepa.core.config import Config
from openjepa.core.errors import BadInput
from openjepa.engine import checkpoint
from openjepa.runs.directory import RunFolder

# Settings that change how the work is done but not what is computed.
HARMLESS = {"data.workers", "data.cache", "data.max_broken", "train.checkpoint_every", "train.keep", "train.accumulate"}


def stored_config(folder: RunFolder) -> dict[str, Any]:
    return configs.read(folder.config)


def check_new(folder: RunFolder) -> None:
    if folder.holds_a_run:
        raise BadInput(
            f"{folder.path} already holds a run; add --resume to continue it, or choose another --run folder"
        )


def check_same(folder: RunFolder, config: Config, fingerprint: str, provenance: dict[str, Any]) -> None:
    """Refuses another config (with the differences) and other data."""
    wanted = yaml.safe_load(configs.dump(config))
    rows = [row for row in configs.difference(stored_config(folder), wanted) if row[0] not in HARMLESS]
    if rows:
        lines = "\n".join(f"  {path}: {before!r} in the run, {after!r} now" for path, before, after in rows)
        raise BadInput(
            f"the config differs from the one {folder.path} was started with:\n{lines}\n"
            f"use the run's own settings (openjepa pretrain --run {folder.path} --resume), or start a new run"
        )
    known = provenance.get("data", {}).get("fingerprint")
    if known is not None and known != fingerprint:
        raise BadInput(
            f"the data in {config.data.source} has changed since {folder.path} was started "
            f"(fingerprint {known[:12]}, now {fingerprint[:12]}); restore it, or start a new run"
        )


def newest_checkpoint(folder: RunFolder) -> Path | None:
    """Where to continue. Damaged checkpoints are named; None when the run was stopped before its first one."""
    path, damaged = checkpoint.newest_intact(folder.checkpoints)
    for error in damaged:
        console.notice(f"notice: {error}")
    if path is not None:
        if damaged:
            console.notice(f"notice: continuing from the newest intact checkpoint, {path.name}")
        return path
    if damaged:
        raise BadInput(f"{folder.checkpoints} holds no intact checkpoint; delete {folder.path} to start over")
    console.notice(f"no checkpoint in {folder.path} yet; starting at step 0")
    return None
