"""Two gloo processes train the same model as one; a run may resume with another number of processes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

import runner
from openjepa.runs.metrics import read, series

pytestmark = pytest.mark.slow

# Adam divides a gradient by its own size: where a gradient is rounding noise, so is the step, up to the learning rate.
TOLERANCE = 2e-4


SLOW_LOOP = """
import time
from openjepa.training import loop

original = loop._step


def slow(*arguments):
    time.sleep(0.5)
    return original(*arguments)


loop._step = slow
"""


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


@pytest.fixture(scope="module")
def together(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "together"
    done = torchrun(2, *runner.words(images, run, "model.drop_path=0.2"))
    assert done.returncode == 0, done.stderr
    return run


def test_two_processes_train_the_same_model_as_one(alone: Path, together: Path) -> None:
    assert largest_difference(alone, together) < TOLERANCE
    assert losses(together) == pytest.approx(losses(alone), abs=1e-4), "the loss is that of all processes"
    provenance = json.loads((together / "provenance.json").read_text())
    assert provenance["processes"] == 2 and provenance["status"] == "finished"
    rows = (together / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(row)["step"] for row in rows] == list(range(1, runner.STEPS + 1)), "only rank 0 writes"


def test_two_processes_share_the_work_of_muon_and_train_the_same_model(images: Path, tmp_path: Path) -> None:
    settings = ("optim.name=muon", "method.num_contexts=2")
    one, two = tmp_path / "one", tmp_path / "two"
    assert runner.command(*runner.words(images, one, *settings)).returncode == 0
    done = torchrun(2, *runner.words(images, two, *settings))
    assert done.returncode == 0, done.stderr
    assert largest_difference(one, two) < TOLERANCE


def test_a_plain_script_gets_the_weights_of_torchrun_from_processes_that_we_start(
    together: Path, images: Path, tmp_path: Path
) -> None:
    """Without `if __name__ == "__main__"`, and in a folder that it changed to: processes must not run the script again."""
    settings = [*runner.SETTINGS, "model.drop_path=0.2", f"data.source={images}", "train.processes=2"]
    lines = ["import os, openjepa", f"os.chdir({str(tmp_path)!r})", "from openjepa.core import config"]
    lines += [f"result = openjepa.pretrain(config.load({{}}, {settings!r}), 'run')", "print('steps', result.steps)"]
    (tmp_path / "script.py").write_text("\n".join(lines))
    done = subprocess.run([sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"steps {runner.STEPS}"], "once"
    assert largest_difference(together, tmp_path / "run") == 0
    provenance = json.loads((tmp_path / "run/provenance.json").read_text())
    assert provenance["processes"] == 2 and provenance["machine"]["threads"] >= 1


def test_bad_input_in_every_process_is_one_sentence(images: Path, tmp_path: Path) -> None:
    """That the data set is too small is noticed by the processes, not by their parent."""
    settings = ("train.processes=2", "train.batch_size=32")
    done = runner.command(*runner.words(images, tmp_path / "run", *settings))
    assert done.returncode == 2
    assert done.stderr.count("batch size 32 is larger than the data set") == 1 and "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_ctrl_c_stops_started_processes_cleanly_and_once(together: Path, images: Path, tmp_path: Path) -> None:
    (tmp_path / "slow_loop.py").write_text(SLOW_LOOP)
    words = runner.words(images, tmp_path / "run", "model.drop_path=0.2", "train.processes=2", "data.cache=none")
    process = subprocess.Popen(
        [sys.executable, "-m", "openjepa", "--import", str(tmp_path / "slow_loop.py"), *words],
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not losses(tmp_path / "run"):
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # a terminal signals the whole group
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert errors.count("stopped cleanly at step") == 1 and "Traceback" not in errors
    resumed = runner.command(
        "pretrain", "--run", str(tmp_path / "run"), "--resume", "--import", str(tmp_path / "slow_loop.py")
    )
    assert resumed.returncode == 0, resumed.stderr
    assert largest_difference(together, tmp_path / "run") < TOLERANCE


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


def test_two_processes_follow_the_same_revised_plan(images: Path, tmp_path: Path) -> None:
    """A process that did not would wait for the other one for ever. The clock is real, so only the structure is asserted."""
    words = [*runner.words(images, tmp_path / "run"), "--set", "train.steps=null", "--set", "train.minutes=0.1"]
    done = torchrun(2, *words)
    assert done.returncode == 0, done.stderr
    decisions = [json.loads(row) for row in (tmp_path / "run/pace.jsonl").read_text().splitlines()]
    assert len({decision["total"] for decision in decisions}) > 1, "the plan was revised"
    provenance = json.loads((tmp_path / "run/provenance.json").read_text())
    assert provenance["status"] == "finished" and provenance["steps"] == decisions[-1]["total"]
    steps, rates = series(read(tmp_path / "run/metrics.jsonl"), "train/lr")
    assert steps == list(range(1, provenance["steps"] + 1)) and rates[-1] == 1e-6


def test_the_tolerance_would_notice_another_seed(alone: Path, images: Path, tmp_path: Path) -> None:
    done = runner.command(*runner.words(images, tmp_path / "run", "model.drop_path=0.2", "seed=1"))
    assert done.returncode == 0, done.stderr
    assert largest_difference(alone, tmp_path / "run") > 100 * TOLERANCE


def test_a_batch_that_cannot_be_shared_is_refused(images: Path, tmp_path: Path) -> None:
    done = torchrun(2, *runner.words(images, tmp_path / "run", "train.batch_size=7"))
    assert done.returncode != 0
    assert "batch size 7 cannot be shared equally by 2 processes" in done.stderr
    assert not (tmp_path / "run").exists()
