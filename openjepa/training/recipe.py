"""Recipes: named settings that come with the package (openjepa/recipes), and what their headers say about them.

A header is a list of `# key: text` lines; a line that starts with `#   ` continues the text above it.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openjepa.core import settings
from openjepa.core.errors import BadInput
from openjepa.core.registry import did_you_mean

FOLDER = Path(__file__).parent.parent / "recipes"
TABLES = "tables"  # in that folder: what is behind `recipe: auto`
SUFFIXES = (".yaml", ".yml")
AUTO, PAPER = "auto", "paper"
OLD_FOLDER = "configs"  # where recipes were until version 0.1


@dataclass(frozen=True, kw_only=True)
class Recipe:
    name: str
    what: str
    command: str
    machine: str
    time: str
    score: str  # one expected number, for the list
    expected: str
    evaluate: str = ""  # the command that gives the expected numbers
    note: str = ""


def names() -> list[str]:
    """
    >>> from openjepa.training.recipe import names
    >>> "cifar10_20min" in names()
    True
    """
    paths = (path.relative_to(FOLDER) for path in FOLDER.rglob("*.yaml"))
    return sorted(path.with_suffix("").as_posix() for path in paths if path.parts[0] != TABLES)


def read(name: str | Path) -> dict[str, Any]:
    """The settings of a YAML file, or of a recipe by its name; a file wins over a recipe.

    The key `recipe` says where they came from. A file may build on a recipe with it: `recipe: cifar10_20min`. What AUTO
    stands for depends on images, machine and budget, so the caller resolves it.
    """
    file = _find(Path(name))
    values = settings.read(file)
    if file.is_relative_to(FOLDER):
        return {"recipe": file.relative_to(FOLDER).with_suffix("").as_posix(), **values}
    base = values.get("recipe")
    if base is None or base in (AUTO, PAPER):
        return values
    merged = read(str(base))
    for path, value in settings.flat(values).items():
        settings.put(merged, path, value)
    return merged


def read_fixed(name: str | Path) -> dict[str, Any]:
    """As `read`, for callers that compare or count settings: AUTO has none before it has seen a machine."""
    values = read(name)
    if values.get("recipe") == AUTO:
        raise BadInput(
            "the recipe auto depends on the images, the machine and the time; give the config.yaml of a run that it started "
            "(without its line `recipe: auto`), or another recipe"
        )
    return values


def describe(name: str) -> Recipe:
    """What the header of a recipe says.

    >>> from openjepa.training.recipe import describe
    >>> describe("cifar10_20min").machine
    '2 CPU cores'
    """
    fields: dict[str, str] = {}
    key = ""
    for line in _find(Path(name)).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        start = re.fullmatch(r"# (\w+): (.*)", line)
        if start:
            key, fields[start[1]] = start[1], start[2]
        else:
            fields[key] += " " + line.removeprefix("#").strip()
    return Recipe(name=name, **fields)


def _find(path: Path) -> Path:
    if path.is_file():
        return path
    name = path.with_suffix("").as_posix() if path.suffix in SUFFIXES else path.as_posix()
    recipe = name.partition(f"{OLD_FOLDER}/")[2]
    if recipe in names():
        raise BadInput(f'no config file "{path}"; its settings are now the recipe {recipe}: give that name instead')
    if name in names():
        return FOLDER / f"{name}.yaml"
    kind = "config file" if path.suffix in SUFFIXES else "recipe or config file"
    raise BadInput(f'no {kind} "{path}"; give a YAML file or a recipe{did_you_mean(name, names())}')
