"""The import arrows of DESIGN section 1: a package may use itself and packages of lower layers, nothing else of ours."""

import ast
from pathlib import Path

import pytest

import openjepa

ROOT = Path(openjepa.__file__).parent
LAYERS = {
    "core": 0,
    "nn": 1,
    "masks": 1,
    "data": 1,
    "engine": 1,
    "runs": 1,
    "models": 2,
    "probes": 2,
    "tasks": 2,
    "methods": 3,
    "viz": 3,
    "io": 3,
    "monitors": 4,
    "app": 5,
    "cli": 6,
}
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
def test_imports_point_downwards(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    for other in imported_packages(path) - {package}:
        assert LAYERS[other] < LAYERS[package], (
            f"{package} (layer {LAYERS[package]}) imports {other} (layer {LAYERS[other]})"
        )


def test_every_package_has_a_layer() -> None:
    packages = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()}
    assert packages == set(LAYERS)


def test_the_arrow_check_would_notice_an_upward_import(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text("def f():\n    from openjepa.app import build\n", encoding="utf-8")
    assert imported_packages(file) == {"app"}
