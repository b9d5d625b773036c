"""Every config file of configs/ can be used as it is, as far as a machine without its data can tell."""

from pathlib import Path

import pytest

from openjepa.cli import demo
from openjepa.core import config as configs
from openjepa.core import settings
from openjepa.methods import build
from openjepa.training import setup

CONFIGS = Path(__file__).parent.parent / "configs"
RECIPES = sorted(CONFIGS.rglob("*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_resolves_and_its_model_can_be_built(path: Path) -> None:
    config = setup.resolve(configs.load(settings.read(path)))
    assert build.outline(config).encoder.grid.size > 1


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_says_how_to_run_it(path: Path) -> None:
    header = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    assert f"openjepa pretrain configs/{path.relative_to(CONFIGS).as_posix()}" in "\n".join(header)


def test_the_scenes_recipe_is_what_the_demo_trains() -> None:
    assert settings.read(CONFIGS / "scenes.yaml") == demo.recipe()
