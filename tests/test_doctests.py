"""The examples in docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import openjepa

MODULES = [name for _, name, _ in pkgutil.walk_packages(openjepa.__path__, "openjepa.") if "__main__" not in name]
EXAMPLES = [
    example
    for name in ["openjepa", *MODULES]
    for example in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name))
    if example.examples
]


def test_there_are_examples() -> None:
    names = {example.name for example in EXAMPLES}
    assert {"openjepa.methods.build.named_method", "openjepa.methods.build.named_encoder"} <= names


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name.removeprefix("openjepa."))
def test_an_example_in_a_docstring_runs(example: doctest.DocTest) -> None:
    lines: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert runner.run(example, out=lines.append).failed == 0, "".join(lines)
