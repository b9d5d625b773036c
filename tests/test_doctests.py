"""The examples in docstrings run as a reader pastes them: in an empty namespace, with their own imports."""

import doctest
import getpass
import importlib
import pkgutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

import openjepa
from openjepa.core.contracts import mask_strategies, methods, probes
from openjepa.evaluation.probes.finetune import Finetune

MODULES = [name for _, name, _ in pkgutil.walk_packages(openjepa.__path__, "openjepa.") if "__main__" not in name]
EXAMPLES = [
    example
    for name in ["openjepa", *MODULES]
    for example in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name))
    if example.examples
]
REGISTRIES = (mask_strategies, methods, probes)
PUBLIC = {
    **{f"openjepa.{name}": getattr(openjepa, name) for name in openjepa.__all__},
    **{f"{registry.kind} {name}": registry[name] for registry in REGISTRIES for name in registry.names()},
    "probe finetune": Finetune,
}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_an_example(name: str) -> None:
    part: Any = PUBLIC[name]
    names = {example.name for example in EXAMPLES}
    assert f"{part.__module__}.{part.__qualname__}" in names, f"{name} needs a >>> example in its docstring"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name.removeprefix("openjepa."))
def test_an_example_in_a_docstring_runs_in_an_empty_namespace(
    example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    example.globs = {}
    lines: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert runner.run(example, out=lines.append).failed == 0, "".join(lines)
    files = {path.name for path in tmp_path.iterdir()} - {f"torchinductor_{getpass.getuser()}"}  # torch makes that one
    assert not files, f"the example leaves files behind: {files}"
