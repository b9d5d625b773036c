"""Every recipe can be used by its name, as far as a machine without its data can tell, and says what to expect."""

import re
from pathlib import Path

import pytest

from openjepa.core import config as configs
from openjepa.core.errors import BadInput
from openjepa.methods import build
from openjepa.training import recipe, setup

NAMES = recipe.names()


def test_there_are_recipes_for_a_laptop_and_for_imagenet() -> None:
    assert {"scenes", "cifar10_20min", "imagenet/vit_h14"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_resolves_and_its_model_can_be_built(name: str) -> None:
    config = setup.resolve(configs.load(recipe.read(name)))
    assert build.outline(config).encoder.grid.size > 1


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_says_how_to_run_it_and_what_to_expect(name: str) -> None:
    described = recipe.describe(name)
    assert f"openjepa pretrain {name} " in described.command
    assert described.what and re.search(r"\d", described.machine) and re.search(r"\d", described.time)
    assert "%" in described.expected
    numbers = re.findall(
        r"\d+(?:\.\d+)?", described.score.replace("CIFAR-10", "").replace("ImageNet-100", "").replace("Places205", "")
    )
    assert numbers and all(number in described.expected for number in numbers), "the list and the details agree"


def test_a_header_line_may_continue_the_one_above() -> None:
    described = recipe.describe("scenes")
    assert described.expected.startswith("accuracy of logistic") and "raw pixels 28 / 39 / 44" in described.expected


def test_a_file_wins_over_a_recipe_of_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert recipe.read("scenes") == recipe.read("scenes.yaml") and "data" in recipe.read("scenes")
    (tmp_path / "scenes").mkdir()
    assert "data" in recipe.read("scenes"), "a folder is not a config file"
    (tmp_path / "scenes.yaml").write_text("seed: 3\n")
    assert recipe.read("scenes.yaml") == {"seed": 3}


def test_a_file_may_build_on_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("recipe: cifar10_20min\noptim: {lr: 0.5}\n")
    values = recipe.read(tmp_path / "mine.yaml")
    assert values["optim"]["lr"] == 0.5 and values["model"]["name"] == "vit-micro/4"
    (tmp_path / "typo.yaml").write_text("recipe: cifar10_20mn\n")
    with pytest.raises(BadInput, match='did you mean "cifar10_20min"'):
        recipe.read(tmp_path / "typo.yaml")


def test_auto_is_refused_where_settings_must_be_known_beforehand() -> None:
    with pytest.raises(BadInput, match="depends on the images"):
        recipe.read_fixed("auto")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cifar10_20mn", 'no recipe or config file "cifar10_20mn".*did you mean "cifar10_20min"'),
        ("none.yaml", 'no config file "none.yaml"'),
        ("configs/imagenet/vit_h14.yaml", "now the recipe imagenet/vit_h14"),
        ("/old/checkout/configs/scenes.yaml", "now the recipe scenes"),
    ],
)
def test_a_name_that_does_not_exist_gets_one_sentence_with_a_hint(name: str, expected: str) -> None:
    with pytest.raises(BadInput, match=expected):
        recipe.read(name)
