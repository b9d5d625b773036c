"""Every method from images to a report: trained, evaluated, loaded, reported. Small, and in this process."""

from pathlib import Path

import pytest
import torch

import openjepa
import runner
from openjepa.core.contracts import methods
from openjepa.report import write

pytestmark = pytest.mark.slow

CASES = [*((name, "vit-nano/8") for name in methods.names()), ("simclr", "resnet18"), ("byol", "resnet18")]


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runner.make_labelled(tmp_path_factory.mktemp("labelled"))


@pytest.mark.parametrize(("name", "model"), CASES)
def test_a_method_is_trained_evaluated_loaded_and_reported(
    name: str, model: str, labelled: Path, tmp_path: Path
) -> None:
    settings = {
        "data": {"source": str(labelled / "train"), "image_size": 32, "workers": 0},
        "method": {"name": name},
        "model": {"name": model},
        "train": {"batch_size": 8, "steps": 3},
    }
    run = openjepa.pretrain(settings, tmp_path / "run").folder
    scores = openjepa.evaluate(run, f"folder:{labelled}", probe="knn")
    assert [score.representation for score in scores] == ["pixels", "random encoder", "trained"]
    assert scores[1].weights != scores[2].weights
    encoder, images = openjepa.load_encoder(run), torch.randn(2, 3, 32, 32)
    trained = openjepa.load(run).eval().encoder
    assert torch.equal(encoder.pool(images), trained.pool(images)) and encoder.pool(images).shape == (2, encoder.dim)
    assert name in write.write(run).read_text()
