"""The wheel carries everything: in an environment of its own it trains from a recipe by name, in another folder."""

import ast
import importlib.metadata
import os
import re
import shutil
import site
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def run(*words: str, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, timeout=200, env={**environment, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the sources, so that the checkout stays as it is; without network."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "openjepa", source / "openjepa", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(target)]
    run(sys.executable, "-m", "pip", "wheel", *options, ".", cwd=source)
    (path,) = target.glob("*.whl")
    return path


def test_the_wheel_carries_every_file_that_is_not_code(wheel: Path) -> None:
    files = [path for path in (ROOT / "openjepa").rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    data = {path.relative_to(ROOT).as_posix() for path in files}
    assert data <= set(zipfile.ZipFile(wheel).namelist())
    assert "openjepa/recipes/imagenet/vit_h14.yaml" in data and "openjepa/studies/compare.yaml" in data


def test_the_installed_command_trains_from_a_recipe_in_another_folder(wheel: Path, tmp_path: Path) -> None:
    """An environment of its own. It borrows the libraries of this one, but not our editable install: a path in a .pth
    file does not bring that path's own .pth files with it."""
    venv.create(tmp_path / "env", symlinks=True)
    python, work = tmp_path / "env" / "bin" / "python", tmp_path / "work"
    work.mkdir()
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    run(*pip, "install", "--no-deps", "--no-index", str(wheel), cwd=work)
    (packages,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
    where = run(str(python), "-c", "import openjepa; print(openjepa.__file__)", cwd=work)
    assert Path(where.strip()).is_relative_to(packages), "the package under test is the installed one"
    command = str(python.with_name("openjepa"))
    assert "cifar10_20min" in run(command, "recipes", cwd=work)
    small = [word for text in ("data.image_size=32", "train.batch_size=16") for word in ("--set", text)]
    words = ["pretrain", "scenes", "--data", "scenes:64", "--steps", "3", "--set", "monitors.probe=off", *small]
    assert "finished: 3 steps" in run(command, *words, "--run", "one", cwd=work)
    run(command, "report", "one", cwd=work)
    assert (work / "one" / "weights.safetensors").exists() and (work / "one" / "report.html").exists()


def test_every_library_that_we_import_is_a_declared_dependency() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    names = {re.split(r"[<>=!~\[ ]", text)[0].lower() for text in declared}
    owners = importlib.metadata.packages_distributions()
    imported = {name for path in (ROOT / "openjepa").rglob("*.py") for name in _imports(path)}
    foreign = imported - set(sys.stdlib_module_names) - {"openjepa"}
    assert "torch" in foreign
    for module in foreign:
        assert {owner.lower() for owner in owners[module]} & (names | {"markupsafe"}), f"{module} is not declared"


def _imports(path: Path) -> set[str]:
    """Top-level names of what a file imports. markupsafe comes with jinja2, which is made of it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found
