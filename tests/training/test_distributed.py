"""Two gloo processes train the same model as one; a run may resume with another number of processes."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

import runner
from openjepa.runs.metrics import read, series

pytestmark = pytest.mark.slow

# Adam divides a gradient by its own size: where a gradient is rounding noise, so is the step, up to the learning rate.
TOLERANCE = 2e-4


def torchrun(num_processes: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    launcher = [
        "-m",
        "torch.distributed.run",
        f"--nproc-per-node={num_processes}",
        "--master-addr=127.0.0.1",
        f"--master-port={port}",
    ]
    return subprocess.run(
        # "--" because torchrun (on Python 3.11) would take our --run for an abbreviation of its own --run-path
        [sys.executable, *launcher, "-m", "--", "openjepa", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runner.make_images(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def alone(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "alone"
    done = runner.command(*runner.words(images, run, "model.drop_path=0.2"))
    assert done.returncode == 0, done.stderr
    return run


def largest_difference(first: Path, second: Path) -> float:
    ours, theirs = (load_file(run / "weights.safetensors") for run in (first, second))
    assert ours.keys() == theirs.keys()
    return max((ours[name] - theirs[name]).abs().max().item() for name in ours)


def losses(run: Path) -> list[float]:
    return series(read(run / "metrics.jsonl"), "train/loss")[1]


def test_two_processes_train_the_same_model_as_one(alone: Path, images: Path, tmp_path: Path) -> None:
    done = torchrun(2, *runner.words(images, tmp_path / "run", "model.drop_path=0.2"))
    assert done.returncode == 0, done.stderr
    assert largest_difference(alone, tmp_path / "run") < TOLERANCE
    assert losses(tmp_path / "run") == pytest.approx(losses(alone), abs=1e-4), "the loss is that of all processes"
    provenance = json.loads((tmp_path / "run/provenance.json").read_text())
    assert provenance["processes"] == 2 and provenance["status"] == "finished"
    rows = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    assert [json.loads(row)["step"] for row in rows] == list(range(1, runner.STEPS + 1)), "only rank 0 writes"


def test_accumulation_trains_the_same_model(alone: Path, images: Path, tmp_path: Path) -> None:
    done = runner.command(*runner.words(images, tmp_path / "run", "model.drop_path=0.2", "train.accumulate=4"))
    assert done.returncode == 0, done.stderr
    assert largest_difference(alone, tmp_path / "run") < TOLERANCE
    assert losses(tmp_path / "run") == pytest.approx(losses(alone), abs=1e-4), "the loss is that of all rounds"


def test_a_run_resumes_with_another_number_of_processes(alone: Path, images: Path, tmp_path: Path) -> None:
    words = runner.words(images, tmp_path / "run", "model.drop_path=0.2")
    runner.killed("step:7", *words)
    done = torchrun(2, *words, "--resume")
    assert done.returncode == 0, done.stderr
    assert "from step 6" in done.stderr
    assert largest_difference(alone, tmp_path / "run") < TOLERANCE


def test_the_tolerance_would_notice_another_seed(alone: Path, images: Path, tmp_path: Path) -> None:
    done = runner.command(*runner.words(images, tmp_path / "run", "model.drop_path=0.2", "seed=1"))
    assert done.returncode == 0, done.stderr
    assert largest_difference(alone, tmp_path / "run") > 100 * TOLERANCE


def test_a_batch_that_cannot_be_shared_is_refused(images: Path, tmp_path: Path) -> None:
    done = torchrun(2, *runner.words(images, tmp_path / "run", "train.batch_size=7"))
    assert done.returncode != 0
    assert "batch size 7 cannot be shared equally by 2 processes" in done.stderr
    assert not (tmp_path / "run").exists()
