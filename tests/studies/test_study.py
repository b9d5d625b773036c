"""A comparison and an ablation, whole but tiny: they run, resume after a kill, and never mix two studies."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import runner
from openjepa.core import config as configs
from openjepa.core.contracts import methods
from openjepa.core.errors import BadInput, OpenJepaError
from openjepa.machine.signals import Stop
from openjepa.methods import build
from openjepa.runs import metrics
from openjepa.runs.directory import RunFolder
from openjepa.runs.lock import Lock
from openjepa.studies import ablate, budgets, compare, processes, results, run, table
from openjepa.studies.folder import StudyFolder
from openjepa.studies.study import Arm, Study, Terms, base_settings
from openjepa.training import setup

BASE = {
    "data": {"source": "scenes:64", "image_size": 32, "workers": 0},
    "model": {"name": "vit-nano/8"},
    "train": {"steps": 3, "batch_size": 16},
    "monitors": {"probe": {"task": "scenes-count", "every": "50%", "num_train": 64, "num_test": 32}},
}
ARMS = (Arm("low rate", {"optim.lr": 1e-4}, published=1.5), Arm("high rate", {"optim.lr": 1e-3}))


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"folder:{runner.make_labelled(tmp_path_factory.mktemp('labelled'))}"


def small(**changes: object) -> Study:
    values = {"title": "rates", "terms": terms(), "arms": ARMS, "published": "nowhere"}
    return Study(**{**values, **changes})  # type: ignore[arg-type]


def terms(**changes: object) -> Terms:
    values = {"base": BASE, "seeds": (0,), "tasks": ("scenes-count",), "probes": ("knn",)}
    return Terms(**{**values, **changes})  # type: ignore[arg-type]


def test_settings_of_a_run_are_the_studys_the_arms_and_the_seed() -> None:
    study = small(terms=terms(seeds=(0, 1)))
    settings = study.settings(study.arms[1], 1)
    assert settings["optim"] == {"lr": 1e-3} and settings["seed"] == 1 and settings["train"] == BASE["train"]
    assert "seed" not in BASE and "optim" not in BASE, "the base is unchanged"


def test_a_study_runs_seed_by_seed() -> None:
    cells = small(terms=terms(seeds=(0, 1))).cells()
    assert [(arm.name, seed) for arm, seed in cells] == [
        ("low rate", 0),
        ("high rate", 0),
        ("low rate", 1),
        ("high rate", 1),
    ]


def test_a_folder_holds_one_study_and_may_get_more_seeds(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path / "study")
    folder.save(small())
    folder.check(small(terms=terms(seeds=(0, 1)), title="another", arms=(ARMS[0], Arm("a third"))))
    with pytest.raises(
        BadInput, match=r"holds another study \(arms.low rate.settings.optim.lr is 0.0001 there, 0.5 here"
    ):
        folder.check(small(arms=(Arm("low rate", {"optim.lr": 0.5}, published=1.5),)))
    with pytest.raises(BadInput, match="terms.labels is None there, 1% here"):
        folder.check(small(terms=terms(labels="1%")))
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    with pytest.raises(BadInput, match="is not empty and holds no study"):
        StudyFolder(tmp_path / "other").check(small())


def test_a_mistake_in_the_last_arm_is_reported_before_the_first_is_trained(tmp_path: Path) -> None:
    arms = (Arm("right"), Arm("wrong", {"method.masks.num_target": 2}))
    with pytest.raises(BadInput, match="num_targets"):
        run.run(small(arms=arms), tmp_path / "study", command="test")
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize("name", ablate.names())
def test_the_papers_ablations_change_settings_that_exist(name: str) -> None:
    base = {"data": {"image_size": 64}, "model": {"name": "vit-micro/4"}}
    study = ablate.study(name, terms(base=base))
    assert len(study.arms) > 1
    for arm in study.arms:
        build.outline(setup.resolve(configs.load(study.settings(arm, 0))))


def test_a_users_own_ablation_is_read_and_checked(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"title": "mine", "arms": {"a": {"set": {"optim.lr": 1e-3}}, "b": None}}))
    study = ablate.study(str(file), terms(), only=["b"])
    assert [arm.name for arm in study.arms] == ["b"]
    file.write_text(yaml.safe_dump({"title": "mine", "arms": {"a": {"sett": {}}, "b": {}}}))
    with pytest.raises(BadInput, match='did you mean "set"'):
        ablate.study(str(file), terms())
    file.write_text(yaml.safe_dump({"title": "mine", "arms": {"a": {"set": {"train.steps": 5}}, "b": {}}}))
    with pytest.raises(BadInput, match="the budget is the same for all arms"):
        ablate.study(str(file), terms())


def test_all_methods_are_compared_also_a_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {arm.name for arm in compare.study(["all"], terms()).arms} == set(methods.names())
    monkeypatch.setitem(methods._parts, "tenth", methods["mae"])
    arms = compare.study(["all"], terms()).arms
    assert [arm.name for arm in arms if arm.group == "others"] == ["tenth"]
    assert [arm.name for arm in compare.study(["tenth", "mae"], terms()).arms] == ["mae", "tenth"]


@pytest.mark.parametrize("name", ["cifar10_20min", "scenes"])
def test_recipes_of_one_method_can_be_the_base_of_all(name: str) -> None:
    """Its method options apply to its own method only, and win over compare.yaml."""
    base = base_settings(name, {"data.source": "scenes:64"}, [], watched="scenes-count")
    study = compare.study(["all"], terms(base=base))
    assert len(study.arms) == len(methods.names())
    for arm in study.arms:
        settings = study.settings(arm, 0)
        build.outline(setup.resolve(configs.load(settings)))
        has_own = settings["method"].get("target_centering") == base["method"]["target_centering"]
        assert has_own == (arm.name == "ijepa")


def test_arms_that_would_share_a_folder_are_refused() -> None:
    with pytest.raises(BadInput, match='"lr <1" and "lr >1" would have the same folder'):
        small(arms=(Arm("lr <1"), Arm("lr >1")))


def test_equal_compute_gives_cheaper_arms_more_steps() -> None:
    arms = (Arm("small", {"model.name": "vit-nano/8"}), Arm("large", {"model.name": "vit-micro/8"}))
    small_arm, large_arm = budgets.with_equal_flops(small(arms=arms), 1e12).arms
    assert small_arm.settings["train.steps"] > 2 * large_arm.settings["train.steps"] > 0


@pytest.mark.slow
def test_a_failing_arm_costs_only_itself_and_is_named(task: str, tmp_path: Path) -> None:
    arms = (Arm("tame"), Arm("wild", {"optim.lr": 1e30, "optim.warmup": 0}))
    study = small(arms=arms, terms=terms(base={**BASE, "monitors": {}}, tasks=(task,)))
    with pytest.raises(OpenJepaError, match=r"1 of 2 runs are missing, the first: wild, seed 0: .*not finite"):
        run.run(study, tmp_path / "study", jobs=2, command="test")
    text = (tmp_path / "study/table.md").read_text()
    assert "| wild | – |" in text and "| tame | –" not in text


@pytest.mark.parametrize(("is_requested", "words"), [(True, "stopped"), (False, "killed by signal 15")])
def test_only_a_process_that_we_did_not_stop_counts_as_killed(
    is_requested: bool, words: str, tmp_path: Path, monkeypatch
) -> None:
    """Evaluation has nothing to save, so the signal itself ends it."""
    stop = Stop()
    stop.is_requested = is_requested
    monkeypatch.setattr(processes, "_is_running", lambda child: child.terminate() or child.wait() is None)
    with Lock(tmp_path) as lock:
        failure = processes.Runner(small(), StudyFolder(tmp_path), lock)._call(["evaluate"], tmp_path / "run", stop)
    assert failure.startswith(words)


@pytest.mark.slow
def test_an_interrupted_study_saves_its_run_and_says_how_to_resume(task: str, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    words = ["compare", "--methods", "byol", "--data", "scenes:64", "--image-size", "32", "--model", "vit-nano/8"]
    words += ["--epochs", "100", "--seeds", "1", "--set", "train.batch_size=16", "--set", "data.workers=0"]
    words += ["--tasks", task, "--probes", "knn", "--run", str(folder), "--set", "monitors.probe=off"]
    process = subprocess.Popen(
        [sys.executable, "-m", "openjepa", *words], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    stopped = RunFolder(folder / "runs/byol-seed0")
    _wait_for(lambda: len(metrics.read(stopped.metrics)) > 1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1 and "byol, seed 0: stopped" in errors and "Run the same command to resume" in errors
    record = json.loads(stopped.provenance.read_text())
    assert record["status"] == "stopped"
    assert (stopped.path / f"checkpoints/step-{record['steps']:08d}").exists(), "the work done is saved"


@pytest.mark.slow
def test_a_killed_comparison_resumes_and_writes_its_results(task: str, tmp_path: Path) -> None:
    """Killed after the first of two runs was evaluated."""
    study = StudyFolder(tmp_path / "study")
    words = ["compare", "--methods", "ijepa,dino", "--data", "scenes:64", "--image-size", "32", "--model", "vit-nano/8"]
    words += ["--epochs", "1", "--seeds", "1", "--set", "train.batch_size=16", "--set", "data.workers=0"]
    words += ["--tasks", task, "--probes", "knn", "--run", str(study.path)]
    first, second = (study.path / f"runs/{name}-seed0/weights.safetensors" for name in ("ijepa", "dino"))
    process = subprocess.Popen([sys.executable, "-m", "openjepa", *words], start_new_session=True)
    _wait_for(study.scores(Arm("ijepa"), 0).exists)
    process.kill()
    process.wait()
    assert first.exists() and not second.exists()
    _wait_for(lambda: _is_free(study.path))  # a child process outlives its parent and holds the lock until it ends
    trained = first.stat().st_mtime_ns
    done = runner.command(*words)
    assert done.returncode == 0, done.stderr
    assert first.stat().st_mtime_ns == trained, "nothing is trained twice"
    assert "| dino |" in done.stdout and "| raw pixels |" in done.stdout
    rows = json.loads(study.results.read_text())["rows"]
    assert [row["arm"]["name"] for row in rows] == ["ijepa", "dino"]
    facts = [row["runs"]["0"] for row in rows]
    assert all(one["images"] == 64 and one["memory_mib"] > 50 and len(one["curve"][0]) > 1 for one in facts)
    page = study.page.read_text()
    assert "without view augmentations" in page and "Against time" in page
    assert "http" not in page.replace("http://www.w3.org", ""), "nothing is loaded from elsewhere"


def _wait_for(is_true: Callable[[], bool]) -> None:
    for _ in range(1200):
        if is_true():
            return
        time.sleep(0.1)
    raise AssertionError("it never happened")


def _is_free(folder: Path) -> bool:
    try:
        with Lock(folder):
            return True
    except BadInput:
        return False


def test_only_the_studys_own_scores_count(tmp_path: Path) -> None:
    """Scores of an evaluation with fewer labels stay in RUN/evals."""
    folder, study = StudyFolder(tmp_path), small()
    write_scores(folder.run(study.arms[0], 0).evals / "scenes-count.json", accuracy=0.9)
    write_scores(folder.scores(study.arms[0], 0), accuracy=0.4)
    write_finished(folder.run(study.arms[0], 0), [{"step": 1, "wall": 60.0, "probe/knn": 0.5}])
    rows = results.collect(study, folder)
    assert [one.mean for one in rows[0].judged] == [0.4] and rows[0].runs[0].curve == ([1.0], [0.5])
    text = table.markdown(study, rows)
    assert "| low rate | 40.0 [35.0, 45.0] (+30.0) | 1.5 | 48 | 0 | 1.0 | 0 |" in text
    assert "| high rate | – | – | – | – | – | – |" in text and "Not all runs are finished: high rate" in text
    assert "| random weights | 10.0 |" in text and "| raw pixels | 20.0 |" in text


def test_a_table_names_runs_that_the_watch_flagged(tmp_path: Path) -> None:
    folder, study = StudyFolder(tmp_path), small()
    for arm, information in zip(study.arms, (0.5, 0.001), strict=True):
        looks = [
            {"step": step, "wall": step, "collapse/token_rank": 9.0, "train/information": information}
            for step in range(1, 9)
        ]
        write_finished(folder.run(arm, 0), looks)
    notes = table.notes(study, results.collect(study, folder))
    (warning,) = [note for note in notes if "teacher" in note]
    assert warning.startswith("high rate, seed 0: watch out: the teacher gives nearly the same output for all images")


def write_finished(run: RunFolder, rows: list[dict[str, float]]) -> None:
    run.path.mkdir(parents=True, exist_ok=True)
    run.provenance.write_text(json.dumps({"status": "finished", "steps": 3}))
    run.config.write_text(yaml.safe_dump({"train": {"batch_size": 16}}))
    run.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_study_may_add_the_patch_dictionary_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It evaluates again, once, and shows a line of its own."""
    folder, before, study = StudyFolder(tmp_path), small(), small(terms=terms(baselines=("patches",)))
    folder.save(before)
    folder.check(study)
    arm, calls = study.arms[0], []
    write_finished(folder.run(arm, 0), [{"step": 1, "wall": 60.0}])
    write_scores(folder.scores(arm, 0), accuracy=0.4)
    assert "patch" not in table.markdown(before, results.collect(before, folder))

    def evaluated(self: object, words: list[str], run: Path, stop: Stop, output: Path) -> str:
        calls.append(words)
        write_scores(output, accuracy=0.4, patches=0.3)
        return ""

    monkeypatch.setattr(processes.Runner, "_call", evaluated)
    with Lock(tmp_path) as lock, Stop() as stop:
        for _ in range(2):
            assert processes.Runner(study, folder, lock)._evaluate(arm, 0, "scenes-count", stop) == ""
    assert len(calls) == 1 and calls[0][-2:] == ["--baseline", "patches"]
    assert "| patch dictionary | 30.0 |" in table.markdown(study, results.collect(study, folder))


def write_scores(path: Path, accuracy: float, patches: float | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "task": "scenes-count",
            "probe": "knn",
            "representation": name,
            "accuracy": value,
            "chance": 0.1,
            "interval": [0.35, 0.45],
        }
        for name, value in (("pixels", 0.2), ("random encoder", 0.1), ("patches", patches), ("trained", accuracy))
        if value is not None
    ]
    path.write_text(json.dumps(rows))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--minutes", "1", "--epochs", "1"], "2 budgets are given; give one of --minutes, --epochs and --flops"),
        ([], "no budgets are given"),
        (["--minutes", "1", "--methods", "ijepa,ijepaa"], 'did you mean "ijepa"'),
        (["--minutes", "1", "--methods", "mae,mae"], "named twice"),
        (["--minutes", "1", "--methods", "dino", "--set", "method.crops.num_local=2"], "--set method.name=dino"),
        (["--flops", "1"], "less than one step"),
        (["--flops", "nan"], "expected a number of operations"),
        (["--minutes", "1", "--tasks", "scenes-cuont"], 'did you mean "scenes-count"'),
        (["--minutes", "1", "--probes", "knnn"], 'did you mean "knn"'),
        (["--minutes", "1", "--baseline", "pathces"], 'unknown baseline "pathces"; choose patches'),
        (["--minutes", "1", "--data", "/no/such/folder"], "/no/such/folder"),
        (
            ["--minutes", "1", "--set", "train.epochs=5"],
            "set the budget of all arms with --minutes, --epochs or --flops",
        ),
    ],
)
@pytest.mark.slow
def test_a_wrong_comparison_is_refused_in_one_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    usual = [] if "--tasks" in words else ["--tasks", "scenes-count"]
    done = runner.command("compare", *usual, "--run", str(tmp_path / "study"), *words)
    assert done.returncode == 2 and sentence in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "study").exists()
