"""Which task a user means, and where its data lie: `cifar10:DIR`, `scenes-count`, `folder:DIR`, or just DIR."""

import os
from dataclasses import replace
from pathlib import Path

from openjepa.core.contracts import sources
from openjepa.core.errors import BadInput
from openjepa.core.registry import did_you_mean
from openjepa.evaluation.tasks.definition import Definition, tasks

ROOT = "OPENJEPA_DATA"  # the environment variable that names the folder with the data sets


def find(spec: str, root: Path | None = None) -> tuple[Definition, str | None]:
    """-> the task, and where its data lie. What exists on disk wins, so a folder may be called `a:b`."""
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
        raise BadInput(f'no task and no folder "{spec}"; give a folder with one sub-folder per class, or a named task')
    raise BadInput(f'unknown task "{spec}"{did_you_mean(name, [*tasks.names(), "all"])}')


def available(root: Path | None = None) -> list[str]:
    """The named tasks whose data are at hand: the embedded ones, and those found below the data root."""
    names = [name for name in tasks.names() if name != "folder"]
    return [name for name in names if tasks[name].is_embedded or _candidates(tasks[name], root)]


def data_root(given: Path | None) -> Path | None:
    if given is not None and not given.is_dir():
        raise BadInput(f'no folder "{given}"; --data names the folder that holds the data sets')
    return given or (Path(os.environ[ROOT]).expanduser() if os.environ.get(ROOT) else None)


def _of_source(spec: str) -> Definition:
    return replace(tasks["folder"], source=spec)


def _candidates(definition: Definition, root: Path | None) -> list[Path]:
    root = data_root(root)
    return [root / place for place in definition.places if (root / place).exists()] if root is not None else []


def _located(name: str, definition: Definition, root: Path | None) -> Path:
    if not definition.places:
        raise BadInput(f"the task {name} needs a place; write {name}:DIR")
    found = _candidates(definition, root)
    if not found:
        looked = f"{data_root(root)} has no {' or '.join(definition.places)}" if data_root(root) else "none is known"
        raise BadInput(
            f"the task {name} needs its data ({looked}); write {name}:DIR, or name a folder that holds it with --data "
            f"or the environment variable {ROOT}"
        )
    return found[0]
