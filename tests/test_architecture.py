"""Rooms in a row: a room imports only from itself and from rooms to its left."""

import ast
from pathlib import Path

import pytest

import openjepa

ROOT = Path(openjepa.__file__).parent
ROW = (
    *("core", "machine", "runs", "nn", "masks", "data", "models", "methods", "weights", "evaluation", "training"),
    *("checks", "planning", "report", "studies", "benchmarks", "cli"),
)
FILES = sorted(path for path in ROOT.rglob("*.py") if path.parent != ROOT)


def imported_packages(path: Path) -> set[str]:
    """The second word of every `openjepa.x…` that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path} uses a relative import"
            names = [node.module] if node.module != "openjepa" else [f"openjepa.{a.name}" for a in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("openjepa.")}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_from_rooms_to_its_left(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    for other in imported_packages(path) - {room}:
        assert ROW.index(other) < ROW.index(room), f"{room} imports {other}"


def test_every_room_stands_in_the_row() -> None:
    rooms = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()}
    assert rooms == set(ROW)


def test_the_arrow_check_would_notice_an_upward_import(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text("def f():\n    from openjepa.cli import main\n", encoding="utf-8")
    assert imported_packages(file) == {"cli"}
