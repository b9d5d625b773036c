"""A killed run resumes bit for bit; anything doubtful is refused. Each run is a process of its own, killed with SIGKILL."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

import runner
from openjepa.core.contracts import methods
from openjepa.core.errors import BadInput
from openjepa.runs import checkpoint, metrics
from openjepa.training import loop
from openjepa.training.pretrain import pretrain

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runner.make_images(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def whole(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The uninterrupted run, with images cached in memory."""
    run = tmp_path_factory.mktemp("runs") / "whole"
    done = runner.command(*runner.words(images, run))
    assert done.returncode == 0, done.stderr
    return run


def losses(run: Path) -> list[float]:
    return metrics.series(metrics.read(run / "metrics.jsonl"), "train/loss")[1]


def copy_of(run: Path, folder: Path) -> Path:
    subprocess.run(["cp", "-r", str(run), str(folder)], check=True)
    return folder


@pytest.mark.parametrize(
    ("kill_at", "workers"),
    [("step:2", 0), ("backward:7", 2), ("weights:6", 0), ("state:6", 1), ("rename:9", 0), ("finish:10", 0)],
)
def test_a_run_killed_at_any_moment_resumes_bit_for_bit(
    kill_at: str, workers: int, whole: Path, images: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    words = runner.words(images, run, f"data.workers={workers}", "data.cache=none")
    assert runner.killed(kill_at, *words).returncode == -signal.SIGKILL
    assert not (run / "weights.safetensors").exists()
    again = runner.command(*words, "--resume")
    assert again.returncode == 0, again.stderr
    assert load_file(run / "weights.safetensors").keys() == load_file(whole / "weights.safetensors").keys()
    assert json.loads((run / "provenance.json").read_text())["status"] == "finished"
    final, expected = (path / f"checkpoints/step-{runner.STEPS:08d}" for path in (run, whole))
    for name in (checkpoint.WEIGHTS, checkpoint.STATE):
        ours, theirs = (_tensors(path / name) for path in (final, expected))
        assert ours == theirs, name
    assert losses(run) == losses(whole) and len(losses(run)) == runner.STEPS
    assert not list((run / "checkpoints").glob(".partial*"))


@pytest.mark.parametrize(("name", "optimizer"), [*((name, "adamw") for name in methods.names()), ("ijepa", "muon")])
def test_every_method_resumes_bit_for_bit(
    name: str, optimizer: str, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off inside this process, which is quicker than nine kills. Views are cropped by a process of their own."""
    settings = {
        "data": {"source": str(images), "image_size": 32, "workers": 1, "cache": "none"},
        "method": {"name": name},
        "model": {"name": "vit-nano/8"},
        "optim": {"name": optimizer},
        "train": {"batch_size": 8, "steps": 5, "checkpoint_every": 2},
    }
    whole = pretrain(settings, tmp_path / "whole")
    with monkeypatch.context() as patch:
        clip = loop._clip
        patch.setattr(loop, "_clip", lambda *arguments: clip(*arguments) if arguments[2] < 3 else 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pretrain(settings, tmp_path / "cut")
    cut = pretrain(settings, tmp_path / "cut", resumes=True)
    for file in (checkpoint.WEIGHTS, checkpoint.STATE):
        ours, theirs = (_tensors(run.folder / "checkpoints/step-00000005" / file) for run in (cut, whole))
        assert ours == theirs, file


PROBE = (
    "monitors.probe.every=2",
    "monitors.probe.task=scenes-count",
    "monitors.probe.num_train=64",
    "monitors.probe.num_test=32",
)


def test_probing_while_training_changes_no_bit_of_the_run_and_survives_a_kill(
    whole: Path, images: Path, tmp_path: Path
) -> None:
    """`whole` was trained without the monitor; one of these is killed and continued."""
    watched, killed = tmp_path / "watched", tmp_path / "killed"
    done = runner.command(*runner.words(images, watched, *PROBE))
    assert done.returncode == 0, done.stderr
    words = runner.words(images, killed, *PROBE, "data.workers=2", "data.cache=none")
    assert runner.killed("backward:5", *words).returncode == -signal.SIGKILL
    again = runner.command(*words, "--resume")
    assert again.returncode == 0, again.stderr
    last = f"checkpoints/step-{runner.STEPS:08d}"
    for name in (checkpoint.WEIGHTS, checkpoint.STATE):
        expected = _tensors(whole / last / name)
        assert _tensors(watched / last / name) == expected and _tensors(killed / last / name) == expected, name
    for name in ("probe/knn", "probe/logistic"):
        steps, values = metrics.series(metrics.read(watched / "metrics.jsonl"), name)
        assert steps == [1, 3, 5, 7, 9, 10] and all(0 <= value <= 1 for value in values)
        assert metrics.series(metrics.read(killed / "metrics.jsonl"), name) == (steps, values)


def _tensors(path: Path) -> dict[str, bytes]:
    """Every tensor of a file as bytes: equal means equal bit for bit."""
    if path.suffix == ".safetensors":
        tensors = load_file(path)
    else:
        import torch

        state = torch.load(path, weights_only=True)["optimizer"]["state"]
        tensors = {f"{index}.{name}": value for index, entry in state.items() for name, value in entry.items()}
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_polite_stop_saves_and_exits_cleanly_and_the_run_resumes(
    number: signal.Signals, whole: Path, images: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    words = runner.words(images, run, "train.checkpoint_every=1000")
    words += ["--set", "data.cache=none", "--set", "data.workers=2"]
    slow = [sys.executable, str(Path(__file__).with_name("slow_steps.py")), *words]
    process = subprocess.Popen(
        slow,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    _wait_for_step(run, 2)
    os.killpg(process.pid, number)  # to the whole group, decoding processes too, as torchrun and terminals do
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "stopped cleanly at step" in errors
    assert json.loads((run / "provenance.json").read_text())["status"] == "stopped"
    again = runner.command(*words, "--resume")
    assert again.returncode == 0, again.stderr
    assert losses(run) == losses(whole)


def test_ctrl_c_before_the_first_step_ends_with_a_sentence_and_leaves_nothing(images: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = [*runner.words(images, run), "--set", "train.minutes=60"]
    slow = [sys.executable, str(Path(__file__).with_name("slow_steps.py")), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(slow, start_new_session=True, stderr=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stderr:
            if "measuring speed" in line:
                os.killpg(process.pid, signal.SIGINT)
                break
        errors = process.stderr.read()
    assert process.returncode == 130
    assert errors.splitlines()[-1] == (
        "openjepa: interrupted before training began; nothing was written, the same command starts over"
    )
    assert not run.exists()


def _wait_for_step(run: Path, step: int) -> None:
    for _ in range(600):
        rows = metrics.read(run / "metrics.jsonl")
        if rows and rows[-1]["step"] >= step:
            return
        time.sleep(0.1)
    raise AssertionError("the run did not start")


def test_a_truncated_newest_checkpoint_is_named_and_the_one_before_is_used_with_a_notice(
    whole: Path, images: Path, tmp_path: Path
) -> None:
    run = copy_of(whole, tmp_path / "run")
    weights = run / "checkpoints/step-00000010/weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    again = runner.command(*runner.words(images, run), "--resume")
    assert again.returncode == 0, again.stderr
    assert "step-00000010 is damaged: weights.safetensors has" in again.stderr
    assert "resuming from the newest intact checkpoint, step-00000009" in again.stderr
    assert losses(run) == losses(whole)


def test_without_an_intact_checkpoint_the_run_does_not_start_over(whole: Path, images: Path, tmp_path: Path) -> None:
    run = copy_of(whole, tmp_path / "run")
    for state in run.glob("checkpoints/*/state.pt"):
        content = bytearray(state.read_bytes())
        content[len(content) // 2] ^= 1
        state.write_bytes(content)
    again = runner.command(*runner.words(images, run), "--resume")
    assert again.returncode == 2
    assert "the contents of state.pt have changed" in again.stderr
    assert "no intact checkpoint" in again.stderr.splitlines()[-1]


def test_a_changed_config_is_refused_with_the_difference(whole: Path, images: Path, tmp_path: Path) -> None:
    run = copy_of(whole, tmp_path / "run")
    again = runner.command(*runner.words(images, run, "optim.lr=0.5", "method.loss=l2"), "--resume")
    assert again.returncode == 2
    assert "optim.lr: 0.001 in the run, 0.5 now" in again.stderr
    assert "method.loss: 'smooth_l1' in the run, 'l2' now" in again.stderr
    assert yaml.safe_load((run / "config.yaml").read_text())["optim"]["lr"] == 0.001


def test_an_edited_config_file_is_refused(whole: Path, tmp_path: Path) -> None:
    run = copy_of(whole, tmp_path / "run")
    (run / "config.yaml").write_text((run / "config.yaml").read_text().replace("lr: 0.001", "lr: 0.5"))
    again = runner.command("pretrain", "--run", str(run), "--resume")
    assert again.returncode == 2 and "optim.lr: 0.001 in the run, 0.5 now" in again.stderr


def test_a_damaged_newer_checkpoint_never_crowds_out_a_good_one(whole: Path, tmp_path: Path) -> None:
    folder = copy_of(whole, tmp_path / "run") / "checkpoints"
    good = checkpoint.load(folder / "step-00000009")
    (folder / "step-00000010/state.pt").write_bytes(b"damaged")
    checkpoint.save(folder, good, metadata={}, keep=1)
    assert [path.name for path in checkpoint.steps(folder)] == ["step-00000009"]
    checkpoint.verify(folder / "step-00000009")


def test_changed_data_is_refused(whole: Path, images: Path, tmp_path: Path) -> None:
    run = copy_of(whole, tmp_path / "run")
    changed = runner.make_images(tmp_path / "images", number=23)
    config = (run / "config.yaml").read_text().replace(str(images), str(changed))
    (run / "config.yaml").write_text(config)
    again = runner.command("pretrain", "--run", str(run), "--resume")
    assert again.returncode == 2
    assert "has changed since" in again.stderr


def test_a_run_folder_in_use_is_not_overwritten(whole: Path, images: Path) -> None:
    before = (whole / "weights.safetensors").read_bytes()
    again = runner.command(*runner.words(images, whole))
    assert again.returncode == 2 and "already holds a run; add --resume" in again.stderr
    assert (whole / "weights.safetensors").read_bytes() == before


def test_resume_needs_only_the_folder_and_reports_a_finished_run(whole: Path) -> None:
    again = runner.command("pretrain", "--run", str(whole), "--resume")
    assert again.returncode == 0 and "is finished: 10 of 10 steps" in again.stderr


def test_a_missing_run_is_refused(tmp_path: Path) -> None:
    again = runner.command("pretrain", "--run", str(tmp_path / "none"), "--resume")
    assert again.returncode == 2 and "holds no run to resume" in again.stderr


def test_a_non_finite_loss_stops_before_the_weights_move(images: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    broken = runner.command(*runner.words(images, run, "optim.lr=1e30", "optim.clip=null", "optim.warmup=0"))
    assert broken.returncode == 1
    assert "is not finite" in broken.stderr and "lower optim.lr" in broken.stderr
    rows = metrics.read(run / "metrics.jsonl")
    assert all(abs(row["train/loss"]) < float("inf") for row in rows if "train/loss" in row)


def test_a_recipe_by_name_with_settings_on_top_trains_from_python(tmp_path: Path) -> None:
    small = {"data.source": "scenes:32", "data.image_size": 32, "train.batch_size": 8, "train.steps": 2}
    result = pretrain("scenes", tmp_path / "run", settings={**small, "monitors.probe": False})
    assert result.is_finished and result.steps == 2
    stored = yaml.safe_load((result.folder / "config.yaml").read_text())
    assert stored["method"]["target_centering"] == "position" and stored["data"]["source"] == "scenes:32"
    with pytest.raises(BadInput, match="scenes"):
        pretrain("scene", tmp_path / "other")
