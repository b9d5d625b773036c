"""The wheel carries everything: installed into an empty folder, it trains from a recipe by name in another folder."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def run(*words: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
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
    run("-m", "pip", "wheel", *options, ".", cwd=source)
    (path,) = target.glob("*.whl")
    return path


def test_the_wheel_carries_every_file_that_is_not_code(wheel: Path) -> None:
    files = [path for path in (ROOT / "openjepa").rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    data = {path.relative_to(ROOT).as_posix() for path in files}
    assert data <= set(zipfile.ZipFile(wheel).namelist())
    assert "openjepa/recipes/imagenet/vit_h14.yaml" in data and "openjepa/studies/compare.yaml" in data


def test_the_installed_wheel_trains_from_a_recipe_in_another_folder(wheel: Path, tmp_path: Path) -> None:
    site, work = tmp_path / "site", tmp_path / "work"
    work.mkdir()
    run("-m", "pip", "install", "--no-deps", "--no-index", "--target", str(site), str(wheel), cwd=work)
    environment = {"PYTHONPATH": str(site)}
    where = run("-c", "import openjepa; print(openjepa.__file__)", cwd=work, **environment)
    assert Path(where.strip()).is_relative_to(site), "the package under test is the installed one"
    assert "cifar10_20min" in run("-m", "openjepa", "recipes", cwd=work, **environment)
    small = [word for text in ("data.image_size=32", "train.batch_size=16") for word in ("--set", text)]
    words = ["pretrain", "scenes", "--data", "scenes:64", "--steps", "3", "--set", "monitors.probe=off", *small]
    assert "finished: 3 steps" in run("-m", "openjepa", *words, "--run", "one", cwd=work, **environment)
    assert (work / "one" / "weights.safetensors").exists()
