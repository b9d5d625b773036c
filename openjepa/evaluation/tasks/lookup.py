"""Which tasks a user means, and where their data are: `cifar10:DIR`, `scenes-count`, `folder:DIR`, just DIR, or `all`."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from openjepa.core.contracts import sources
from openjepa.core.errors import BadInput
from openjepa.core.registry import did_you_mean
from openjepa.evaluation.tasks.definition import Definition, tasks
from openjepa.machine import console

ROOT = "OPENJEPA_DATA"  # the environment variable with the folder that holds the data sets
ALL = "all"


def find(spec: str, root: Path | None = None) -> tuple[Definition, str | None]:
    """-> the task, and the path of its data. A path that exists wins: a folder may be called `a:b`."""
    if os.path.exists(os.path.expanduser(spec)) and spec not in tasks:
        return _of_source(spec), None
    name, _, path = spec.partition(":")
    if name in tasks:
        definition = tasks[name]
        if path or definition.is_embedded:
            return definition, path or None
        return definition, str(_located(name, definition, root))
    if name in sources:
        return _of_source(spec), None
    if "/" in spec:
        raise BadInput(
            f'no task and no folder "{spec}"; expected a folder with one sub-folder per class, or a task name'
        )
    raise BadInput(f'unknown task "{spec}"{did_you_mean(name, [*tasks.names(), ALL])}')


def names(specs: Sequence[str], root: Path | None) -> list[str]:
    """Each once; `all` becomes every task whose data are there."""
    if not specs:
        raise BadInput("no task is given; expected a name such as scenes-count, a labelled folder, or all")
    if ALL not in specs:
        return list(dict.fromkeys(specs))
    ready = available(root)
    absent = [name for name in tasks.names() if name not in ready and name != "folder"]
    if absent:
        where = f"in {root}" if root is not None else f"known; set their folder with --data or {ROOT}"
        console.notice(f"skipped, because their data are not {where}: {', '.join(absent)}")
    return list(dict.fromkeys([*(spec for spec in specs if spec != ALL), *ready]))


def available(root: Path | None = None) -> list[str]:
    """The named tasks whose data are there: the embedded ones, and those below the data root."""
    named = [name for name in tasks.names() if name != "folder"]
    return [name for name in named if tasks[name].is_embedded or _candidates(tasks[name], root)]


def data_root(folder: Path | None) -> Path | None:
    if folder is not None and not folder.is_dir():
        raise BadInput(f'no folder "{folder}"; --data must be the folder that holds the data sets')
    return folder or (Path(os.environ[ROOT]).expanduser() if os.environ.get(ROOT) else None)


def _of_source(spec: str) -> Definition:
    return replace(tasks["folder"], source=spec)


def _candidates(definition: Definition, root: Path | None) -> list[Path]:
    root = data_root(root)
    return [root / name for name in definition.folders if (root / name).exists()] if root is not None else []


def _located(name: str, definition: Definition, root: Path | None) -> Path:
    if not definition.folders:
        raise BadInput(f"the task {name} needs a folder; write {name}:DIR")
    paths = _candidates(definition, root)
    if not paths:
        reason = (
            f"{data_root(root)} has no {' or '.join(definition.folders)}" if data_root(root) else "no folder is set"
        )
        raise BadInput(
            f"the task {name} needs its data ({reason}); write {name}:DIR, or set the folder above it with --data "
            f"or the environment variable {ROOT}"
        )
    return paths[0]
