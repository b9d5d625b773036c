"""`--import file.py` adds somebody's own parts, and a run saves where they are."""

import json
import sys
from pathlib import Path

import pytest

import runner
from openjepa.core import config as configs
from openjepa.core import registry
from openjepa.core.contracts import probes
from openjepa.core.errors import BadInput
from openjepa.evaluation.tasks.definition import tasks

MASK = """
from dataclasses import dataclass
import torch
from openjepa.core.contracts import mask_strategies
from openjepa.core.types import Masks

@mask_strategies.register("halves")
@dataclass(frozen=True, kw_only=True)
class Halves:
    def __call__(self, batch_size, grid, generator):
        patches = torch.arange(grid.size)
        half = grid.size // 2
        return Masks(patches[:half].expand(batch_size, -1), patches[half:].expand(batch_size, 1, -1))
"""
PROBE = """
from dataclasses import dataclass
import torch
from openjepa.core.contracts import Probe, probes

@probes.register("first-class")
@dataclass(kw_only=True)
class FirstClass(Probe):
    def fit(self, train):
        return self
    def predict(self, test):
        return torch.zeros_like(test.labels)
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "parts" / "my_parts.py"
    file.parent.mkdir()
    file.write_text(MASK + PROBE)
    return file


@pytest.mark.slow
def test_a_mask_from_a_file_is_counted_before_and_after_the_verb(own: Path) -> None:
    words = ["masks", "--name", "halves", "--images", "8", "--batch-size", "4", "--no-draw", "--json"]
    for order in (["--import", str(own), *words], [*words, f"--import={own}"]):
        done = runner.command(*order)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["context_share"] == 0.5
    assert runner.command(*words).returncode == 2


@pytest.mark.slow
def test_a_run_saves_the_path_and_resumes_and_evaluates_with_it(own: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = runner.words("scenes:64", run, "method.masks.name=halves", "train.steps=2", "monitors.collapse=off")
    done = runner.command(*words, "--import", str(own))
    assert done.returncode == 0, done.stderr
    assert configs.yaml.safe_load((run / "config.yaml").read_text())["imports"] == [str(own)]
    resume = ["pretrain", "--run", str(run), "--resume"]
    done = runner.command(*resume)
    assert done.returncode == 2 and f"add --import {own}" in done.stderr, "a stored path is never executed by itself"
    done = runner.command(*resume, "--import", str(own))
    assert done.returncode == 0 and "is finished" in done.stderr
    labelled = runner.make_labelled(tmp_path / "labelled")
    for file in sorted((labelled / "val" / "cats").iterdir())[:6]:  # 2 cats and 8 dogs
        file.unlink()
    evaluate = ["evaluate", str(run), "--task", str(labelled), "--json"]
    done = runner.command(*evaluate, "--probe", "first-class", "--import", str(own))
    assert done.returncode == 0, done.stderr
    own.write_text(own.read_text().replace("torch.zeros_like(", "torch.ones_like("))
    edited = runner.command(*evaluate, "--probe", "first-class", "--import", str(own))
    before, after = (json.loads(each.stdout)[0]["accuracy"] for each in (done, edited))
    assert before == pytest.approx(0.2) and after == pytest.approx(0.8), "an edited probe is fitted again, not cached"
    moved = own.rename(tmp_path / own.name)
    done = runner.command(*evaluate, "--probe", "knn", "--import", str(own))
    assert done.returncode == 2 and f'no Python file "{own}"' in done.stderr and "new path" in done.stderr
    assert runner.command(*evaluate, "--probe", "knn", "--import", str(moved)).returncode == 0
    done = runner.command("runs", str(tmp_path), "--json")
    assert json.loads(done.stdout)[0]["status"] == "finished", "a list of runs needs nobody's parts"


@pytest.mark.slow
def test_the_runs_of_a_study_get_the_file_too(own: Path, tmp_path: Path) -> None:
    study = tmp_path / "own.yaml"
    study.write_text("title: own masks\narms:\n  halves: {set: {method.masks.name: halves}}\n  usual: {set: {}}\n")
    settings = [word for setting in runner.SETTINGS if "steps" not in setting for word in ("--set", setting)]
    words = ["--data", "scenes:64", "--flops", "1e9", "--seeds", "1"]
    words += [
        "--tasks",
        str(runner.make_labelled(tmp_path / "labelled")),
        "--probes",
        "first-class",
        "--set",
        "monitors.probe=off",
        *settings,
    ]
    done = runner.command("ablate", str(study), *words, "--run", str(tmp_path / "s"), "--import", str(own))
    assert done.returncode == 0, done.stderr
    assert "halves" in done.stdout


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("gone.py", None, "no Python file"),
        ("parts.txt", "", "no Python file"),
        ("broken_part.py", "def", "cannot import .*broken_part.py: .*line 1"),
        ("needy_part.py", "import no_such_module", "No module named 'no_such_module'"),
        ("random.py", "", '"random" is not a free module name; rename the file'),
        ("my-part.py", "", '"my-part" is not a free module name'),
        ("second_ijepa.py", "from openjepa.core.contracts import methods\nmethods['ijepa']\n"
         "methods.register('ijepa')(int)", 'method "ijepa" is registered twice; choose another name'),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_imported_gets_one_sentence(
    name: str, text: str | None, expected: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=expected):
        registry.import_files([tmp_path / name])
    assert Path(name).stem not in sys.modules or name == "random.py"


@pytest.mark.parametrize("failure", ["undefined_name", "import no_such_module"])
def test_a_file_that_failed_half_way_can_be_imported_once_it_is_fixed(failure: str, tmp_path: Path) -> None:
    file, path = tmp_path / "half_loaded.py", list(sys.path)
    task = """
from openjepa.evaluation.tasks.definition import Definition, tasks
tasks.register("own-task")(Definition("which class", "folder"))
"""
    file.write_text(f"{PROBE}\n{task}\n{failure}\n")
    with pytest.raises((NameError, BadInput)):
        registry.import_files([file])
    assert "half_loaded" not in sys.modules and sys.path == path
    assert "first-class" not in probes and "own-task" not in tasks
    assert "knn" in probes and "folder" in tasks
    file.write_text(f"{PROBE}\n{task}\n")
    registry.import_files([file])
    assert probes["first-class"].__module__ == "half_loaded" and "own-task" in tasks
    registry._undo("half_loaded", path)


def test_a_file_is_imported_once(tmp_path: Path) -> None:
    file = tmp_path / "counts_imports.py"
    file.write_text(
        "import pathlib\nfile = pathlib.Path(__file__).with_name('log')\nassert not file.exists()\nfile.touch()\n"
    )
    assert registry.import_files([file]) == registry.import_files([str(file)]) == (str(file),)
    assert (tmp_path / "log").exists()
    del sys.modules["counts_imports"]
