"""A run that version 0.1 started and that was killed at step 9 of 12 loads, evaluates and resumes."""

import json
import tarfile
from pathlib import Path

import pytest
from safetensors.torch import load_file

import openjepa
import runner

pytestmark = pytest.mark.slow

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture
def old_run(tmp_path: Path) -> Path:
    with tarfile.open(FIXTURES / "run_0.1.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "run"


def test_it_ends_with_the_weights_that_version_0_1_would_have_reached(old_run: Path) -> None:
    done = runner.command("pretrain", "--run", str(old_run), "--resume")
    assert done.returncode == 0, done.stderr
    weights = load_file(old_run / "weights.safetensors")
    expected = json.loads((FIXTURES / "run_0.1_finished.json").read_text(encoding="utf-8"))
    sums = {name: [tensor.double().sum().item(), tensor.double().norm().item()] for name, tensor in weights.items()}
    assert sums.keys() == expected.keys()
    for name, numbers in expected.items():  # not bit for bit: another processor may round differently
        assert sums[name] == pytest.approx(numbers, rel=1e-3, abs=1e-3), name


def test_its_time_budget_still_means_the_steps_that_it_was_turned_into(old_run: Path) -> None:
    path = old_run / "provenance.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "minutes": 5.0}))
    done = runner.command("pretrain", "--run", str(old_run), "--resume", "--minutes", "5")
    assert done.returncode == 0 and "measuring" not in done.stderr, done.stderr
    assert json.loads(path.read_text())["steps"] == 12 and not (old_run / "pace.jsonl").exists()


def test_its_checkpoint_loads_and_evaluates(old_run: Path) -> None:
    scores = openjepa.evaluate(old_run, "scenes-count", probe="knn", num_train=60, num_test=40)
    assert [score.representation for score in scores] == ["pixels", "random encoder", "trained"]
    encoder = openjepa.load_encoder(old_run / "checkpoints" / "step-00000008")
    assert encoder.image_size == (32, 32)
