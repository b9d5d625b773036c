"""The files of a run folder and how to read them: metrics, weights, checkpoints, collapse measures, precision."""

import json
from pathlib import Path

import pytest
import torch
import yaml

import openjepa
import runner
from openjepa.core import config as configs
from openjepa.core.errors import BadInput
from openjepa.machine import device
from openjepa.runs import checkpoint, provenance
from openjepa.runs.directory import RunFolder
from openjepa.runs.metrics import Recorder, read, series
from openjepa.training import resume, setup
from openjepa.training.monitors import collapse


def test_metrics_are_one_object_a_line_and_a_torn_last_line_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    recorder = Recorder(path)
    recorder.write(1, {"train/loss": 0.5})
    recorder.write(2, {"train/loss": 0.25, "collapse/rankme": 3.0})
    recorder.close()
    path.write_text(path.read_text() + '{"step": 3, "tra')
    assert series(read(path), "train/loss") == ([1, 2], [0.5, 0.25])
    assert series(read(path), "collapse/rankme") == ([2], [3.0])


def test_a_resumed_recorder_drops_lines_after_the_checkpoint_and_continues_the_clock(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    rows = [{"step": step, "wall": 10.0 * step, "train/loss": float(step)} for step in (1, 2, 3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    recorder = Recorder(path, start=2)
    recorder.write(3, {"train/loss": 30.0})
    recorder.close()
    assert series(read(path), "train/loss") == ([1, 2, 3], [1.0, 2.0, 30.0])
    assert read(path)[-1]["wall"] >= 20.0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    settings = {
        "data": {"source": "scenes:32", "image_size": 32},
        "model": {"name": "vit-nano/8"},
        "train": {"steps": 4, "batch_size": 8, "checkpoint_every": 2},
    }
    result = openjepa.pretrain(settings, run=folder)
    assert result.is_finished and result.steps == 4
    return folder


def test_a_run_can_be_loaded_from_its_folder_a_checkpoint_and_its_weights_file(run: Path) -> None:
    images = torch.randn(2, 3, 32, 32)
    paths = [run, run / "weights.safetensors", run / "checkpoints/step-00000004"]
    with torch.no_grad():
        outputs = [openjepa.load_encoder(path)(images) for path in paths]
    assert torch.equal(outputs[0], outputs[1]) and torch.equal(outputs[0], outputs[2])
    assert outputs[0].shape == (2, 16, 64)


def test_target_and_context_encoder_are_told_apart(run: Path) -> None:
    method = openjepa.load(run)
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(openjepa.load_encoder(run)(images), method.target_encoder(images))
        assert torch.equal(openjepa.load_encoder(run, which="context")(images), method.context_encoder(images))
        assert not torch.equal(method.target_encoder(images), method.context_encoder(images))
    assert not method.training and method.predictor is not None


def test_the_run_folder_holds_what_the_readme_says(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert names - {".lock"} == {
        "config.yaml",
        "provenance.json",
        "metrics.jsonl",
        "checkpoints",
        "weights.safetensors",
    }
    record = json.loads((run / "provenance.json").read_text())
    assert record["status"] == "finished" and record["data"]["source"] == "scenes:32"
    assert record["versions"]["torch"].startswith(torch.__version__.split("+")[0])


@pytest.mark.parametrize("kind", ["truncated", "tampered", "missing", "no manifest"])
def test_a_damaged_checkpoint_is_refused_by_name(run: Path, kind: str, tmp_path: Path) -> None:
    copy = tmp_path / "step-00000004"
    copy.mkdir()
    for file in (run / "checkpoints/step-00000004").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    weights = copy / "weights.safetensors"
    if kind == "truncated":
        weights.write_bytes(weights.read_bytes()[:-1])
    elif kind == "tampered":
        content = bytearray(weights.read_bytes())
        content[-1] ^= 255
        weights.write_bytes(content)
    elif kind == "missing":
        weights.unlink()
    else:
        (copy / "manifest.json").unlink()
    with pytest.raises(BadInput, match="step-00000004"):
        checkpoint.load(copy)
    with pytest.raises(BadInput):
        openjepa.load(copy)


def test_weights_without_our_config_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"x": torch.zeros(1)}, tmp_path / "x.safetensors")
    with pytest.raises(BadInput, match="has no OpenJEPA config"):
        openjepa.load(tmp_path / "x.safetensors")
    (tmp_path / "y.safetensors").write_bytes(b"no")
    with pytest.raises(BadInput, match="not a readable weights file"):
        openjepa.load(tmp_path / "y.safetensors")


def test_rankme_counts_the_directions_in_use() -> None:
    assert collapse.rankme(torch.eye(8)) == pytest.approx(8, rel=1e-3)
    assert collapse.rankme(torch.randn(50, 1) @ torch.randn(1, 8)) == pytest.approx(1, abs=0.01)


def test_collapse_measures_know_a_collapsed_model() -> None:
    collapsed, healthy = torch.ones(64, 8) + 1e-4 * torch.randn(64, 8), torch.randn(64, 8)
    assert collapse.relative_std(collapsed) < 0.01 < 0.9 < collapse.relative_std(healthy)
    assert collapse.mean_cosine(collapsed) > 0.999 and abs(collapse.mean_cosine(healthy)) < 0.2


def test_mean_cosine_equals_a_loop_over_pairs() -> None:
    features = torch.randn(6, 4)
    pairs = [torch.cosine_similarity(features[i], features[j], dim=0) for i in range(6) for j in range(6) if i != j]
    assert collapse.mean_cosine(features) == pytest.approx(torch.stack(pairs).mean().item(), abs=1e-5)


def test_precision_is_float32_on_a_cpu_and_a_failing_probe_is_never_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert device.resolve_precision("auto", cpu) == "float32"
    monkeypatch.delenv(device.WORKS, raising=False)
    monkeypatch.setattr(device, "probe_bfloat16", lambda kind, safe_isa=False: "killed by signal 4")
    assert device.resolve_precision("auto", gpu) == "float32"
    with pytest.raises(BadInput, match=r"bfloat16 does not work on this machine \(killed by signal 4\)"):
        device.resolve_precision("bfloat16", cpu)
    monkeypatch.setattr(device, "probe_bfloat16", lambda kind, safe_isa=False: None)
    assert device.resolve_precision("auto", gpu) == "bfloat16"


@pytest.mark.slow
def test_bfloat16_trains_or_explains_why_not(tmp_path: Path) -> None:
    """On some machines the first bfloat16 product kills the process; a run must survive that."""
    done = runner.command(*runner.words("scenes:32", tmp_path / "run", "train.precision=bfloat16", "train.steps=2"))
    assert done.returncode == 0 or (done.returncode == 2 and "bfloat16 does not work" in done.stderr), done.stderr


def test_nothing_moves_when_the_loss_is_not_finite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from openjepa.core.errors import OpenJepaError
    from openjepa.methods.ijepa import IJEPA

    losses, updates = [], []
    distance, update = IJEPA.distance, torch.optim.AdamW.step
    monkeypatch.setattr(
        IJEPA,
        "distance",
        lambda self, *both: losses.append(0) or distance(self, *both) * (1 if len(losses) < 3 else torch.nan),
    )
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self, *_: updates.append(0) or update(self))
    settings = {"data": {"source": "scenes:32", "image_size": 32}, "model": {"name": "vit-nano/8"}}
    settings["monitors"] = {"prediction": False}  # it measures distances, too
    with pytest.raises(OpenJepaError, match="the loss of step 2 is not finite"):
        openjepa.pretrain({**settings, "train": {"steps": 4, "batch_size": 8}}, run=tmp_path / "run")
    assert len(updates) == 2
    assert json.loads((tmp_path / "run/provenance.json").read_text())["status"] == "failed"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # dynamo warns about functools.lru_cache
def test_compiled_networks_train_the_same_model(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the eager backend of torch.compile: the wiring is ours, the code generator is torch's."""
    compiled, original = [], torch.nn.Module.compile
    monkeypatch.setattr(
        torch.nn.Module, "compile", lambda self: (compiled.append(self), original(self, backend="eager"))
    )
    config = (run / "config.yaml").read_text().replace("compile: false", "compile: true")
    import yaml

    result = openjepa.pretrain(yaml.safe_load(config), run=tmp_path / "run")
    ours, theirs = (openjepa.load(folder).state_dict() for folder in (result.folder, run))
    assert len(compiled) == 3
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-6) for name in theirs)


def test_a_run_from_before_an_option_existed_may_resume() -> None:
    config = setup.resolve(configs.load({}, ["model.name=vit-nano/8", "data.image_size=32"]))
    stored = yaml.safe_load(configs.dump(config))
    del stored["method"]["num_contexts"]
    resume._refuse_difference(stored, config, "somewhere")
    stored["method"]["loss"] = "l2"
    with pytest.raises(BadInput, match=r"method\.loss: 'l2' in the run"):
        resume._refuse_difference(stored, config, "somewhere")


def test_provenance_survives_writing_and_keeps_its_keys(run: Path, tmp_path: Path) -> None:
    written, copy = json.loads((run / "provenance.json").read_text()), RunFolder(tmp_path)
    provenance.write(copy, provenance.read(RunFolder(run)))
    assert json.loads(copy.provenance.read_text()) == written
    keys = "status started command commit versions machine processes precision data minutes steps ended peak_memory_mib"
    assert list(written) == keys.split() and set(written["data"]) == {"source", "fingerprint"}


def test_provenance_of_an_older_version_loads_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert provenance.status(folder) == ""
    folder.provenance.write_text('{"status": "running", "unknown": 1, "machine": {"cores": 2, "fans": 3}}')
    record = provenance.read(folder)
    assert (record.status, record.machine.cores, record.data.fingerprint, record.steps) == ("running", 2, None, None)
    provenance.set_status(folder, "failed")
    written = json.loads(folder.provenance.read_text())
    assert written["status"] == "failed" and "steps" not in written
    assert (written["unknown"], written["machine"]["fans"]) == (1, 3), "a newer version may have written them"
    assert "extra" not in written and "extra" not in written["machine"]
    for content in ("{", "[1]", '{"steps": "many"}'):
        folder.provenance.write_text(content)
        with pytest.raises(BadInput, match="cannot read .*provenance.json") as error:
            provenance.read(folder)
        assert "http" not in str(error.value) and "\n" not in str(error.value)
        assert provenance.status(folder) == ""
