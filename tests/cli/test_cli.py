"""The command line as users see it: help, one clear sentence for bad input, exit codes, JSON."""

import json
from pathlib import Path

import pytest

import runner

VERBS = [
    "demo",
    "recipes",
    "pretrain",
    "plan",
    "evaluate",
    "compare",
    "ablate",
    "masks",
    "data check",
    "data info",
    "report",
    "runs",
    "bench masks",
    "bench step",
    "bench scaling",
    "bench data",
    "bench features",
    "bench probes",
    "doctor",
]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """The command inside this process: (exit code, stdout, stderr)."""
    from openjepa.cli.main import main

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["openjepa", *words])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(call, verb: str) -> None:
    code, out, _ = call(*verb.split(), "--help")
    assert code == 0 and f"Example: openjepa {verb}" in " ".join(out.split())


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_says_what_it_is(verb: str) -> None:
    from openjepa.cli.main import app

    command = app
    for word in verb.split():
        command = command[word]
    silent = [
        argument.name
        for argument in command.assemble_argument_collection(parse_docstring=True)
        if not argument.parameter.help and argument.name != "*"  # options of several verbs in one class
    ]
    assert not silent


def test_the_command_alone_says_where_to_start(call) -> None:
    code, out, _ = call()
    assert code == 0 and "Start with: openjepa demo" in " ".join(out.split())


BAD_INPUT = {
    "an unknown verb": (["pretrian"], "pretrian"),
    "an unknown option": (["pretrain", "--dta", "x"], "--dta"),
    "a missing folder": (
        ["pretrain", "--recipe", "paper", "--data", "no/such/folder"],
        'no folder or file "no/such/folder"',
    ),
    "a wrong key": (["pretrain", "--recipe", "paper", "--data", "scenes", "--set", "optim.lrr=1"], 'did you mean "lr"'),
    "a wrong value": (
        ["pretrain", "--recipe", "paper", "--data", "scenes", "--set", "optim.lr=fast"],
        "optim.lr is 'fast'",
    ),
    "a missing config": (["pretrain", "none.yaml"], 'no config file "none.yaml"'),
    "an unknown recipe": (["pretrain", "cifar10_20mn"], 'did you mean "cifar10_20min"'),
    "a recipe at its old path": (["plan", "configs/imagenet/vit_h14.yaml"], "now the recipe imagenet/vit_h14"),
    "a base that is no recipe": (
        ["compare", "--base", "scens", "--minutes", "1", "--tasks", "scenes-count"],
        'did you mean "scenes"',
    ),
    "a file of parts that is gone": (["masks", "--import", "no/such.py"], "no Python file"),
    "two lengths": (["pretrain", "--recipe", "paper", "--data", "scenes", "--epochs", "1", "--steps", "2"], "keep one"),
    "a length that is no number": (["pretrain", "--steps", "many"], "many"),
    "an unknown model": (
        ["pretrain", "--recipe", "paper", "--data", "scenes", "--model", "vit-tini/8"],
        'did you mean "tiny"',
    ),
    "an unknown method": (
        ["pretrain", "--recipe", "paper", "--data", "scenes", "--method", "ijpa"],
        'did you mean "ijepa"',
    ),
    "a size that does not fit": (
        ["pretrain", "--recipe", "paper", "--data", "scenes", "--set", "data.image_size=65"],
        "use 64 or 80",
    ),
    "a run that is none": (["evaluate", "no/run", "--task", "scenes-count"], 'no weights in "no/run"'),
    "a run that is a file": (
        ["pretrain", "--recipe", "paper", "--data", "scenes:64", "--run", __file__],
        "is a file; --run needs a folder",
    ),
    "a demo over something else": (["demo", "--run", str(Path(__file__).parent)], "is not an earlier demo"),
    "a resume of nothing": (["pretrain", "--resume"], "add --run DIR"),
    "a folder that looks like a number": (
        ["pretrain", "--recipe", "paper", "--data", "2024"],
        'no folder or file "2024"',
    ),
    "a method that is a number": (["pretrain", "--recipe", "paper", "--set", "method.name=3"], 'unknown method "3"'),
    "a section that is a number": (["pretrain", "--recipe", "paper", "--set", "method=3"], "method is 3"),
    "a width that does not fit": (
        ["pretrain", "--recipe", "paper", "--set", "method.predictor.width=31"],
        "is not a multiple of",
    ),
    "betas out of range": (["pretrain", "--recipe", "paper", "--set", "optim.betas=[1.5,0.9]"], "optim.betas.0 is 1.5"),
    "a crop that is no range": (
        ["pretrain", "--recipe", "paper", "--set", "data.crop_scale=[0.9,0.3]"],
        "write [smaller, larger]",
    ),
    "a checkpoint never": (
        ["pretrain", "--recipe", "paper", "--set", "train.checkpoint_every=0"],
        "must be at least 1 step",
    ),
    "a batch too large": (["pretrain", "--recipe", "paper", "--data", "scenes:8"], "train.batch_size=8 or less"),
    "a disk cache of what is no file": (
        ["pretrain", "--recipe", "paper", "--data", "scenes:200", "--set", "data.cache=disk"],
        "scenes:200 has no image files",
    ),
    "masks for no image": (["masks", "--batch-size", "0"], "batch-size"),
    "an unknown probe": (["evaluate", "x", "--task", "scenes-count", "--probe", "nkk"], 'unknown probe "nkk"'),
    "an unknown task": (["evaluate", "random:vit-nano/8", "--image-size", "32", "--task", "cifr10"], '"cifar10"?'),
    "a task that is no folder": (
        ["evaluate", "random:vit-nano/8", "--image-size", "32", "--task", "folder:no/such"],
        'folder "no/such" does not exist',
    ),
    "a share that is none": (
        ["evaluate", "random:vit-nano/8", "--image-size", "32", "--task", "scenes-count", "--labels", "few"],
        '--labels "few" is neither',
    ),
    "fewer labels than classes": (
        ["evaluate", "random:vit-nano/8", "--image-size", "32", "--task", "scenes-count", "--labels", "0.01%"],
        "is 2 labels for 8 classes",
    ),
    "a wrong option of a probe": (
        ["evaluate", "random:vit-nano/8", "--image-size", "32", "--task", "scenes-count", "--set", "linear.epoch=1"],
        'did you mean "epochs"?',
    ),
    "fresh weights of no model": (["evaluate", "random:vit-nan/8", "--task", "scenes-count"], 'did you mean "nano"'),
    "a data root that is none": (
        ["evaluate", "random:vit-nano/8", "--image-size", "32", "--task", "all", "--data", "no/such"],
        'no folder "no/such"',
    ),
    "an online probe of no task": (
        ["pretrain", "--recipe", "paper", "--data", "scenes:64", "--set", "monitors.probe.task=scenes-cuont"],
        'did you mean "scenes-count"?',
    ),
    "an online probe of unlabelled pictures": (
        [
            "pretrain",
            "--recipe",
            "paper",
            "--data",
            "scenes:200",
            "--set",
            f"monitors.probe.task={Path(__file__).parent}",
        ],
        "no images in folder",
    ),
    "an online probe with one label": (
        ["pretrain", "--recipe", "paper", "--data", "scenes:64", "--set", "monitors.probe.num_train=1"],
        "monitors.probe.num_train is 1",
    ),
    "an absurd number of labels": (
        ["evaluate", "random:vit-nano/8", "--image-size", "32", "--task", "scenes-count", "--labels", "0/class"],
        "leaves no label",
    ),
    "an unknown mask": (["masks", "--name", "multiblok"], 'did you mean "multiblock"'),
    "a wrong mask option": (["masks", "--set", "num_target=2"], 'did you mean "num_targets"'),
    "a grid too small": (["masks", "--image-size", "16", "--patch-size", "16"], "grid cannot hold"),
    "a report of nothing": (["report", "no/run"], "no/run"),
    "no runs": (["runs", "no/runs"], 'no folder "no/runs"'),
    "a source that is none": (["data", "info", "sceens"], 'did you mean "scenes"'),
    "a plan for no GPU": (["plan", "--gpu", "a100-08"], 'did you mean "a100-80"'),
    "a plan for zero GPUs": (["plan", "--gpus", "0"], "gpus"),
    "a plan for GPUs that cannot share": (["plan", "--gpus", "3"], "use a multiple of 3"),
    "a plan beyond the peak": (["plan", "--utilisation", "40"], "utilisation 40 is not a share"),
    "a plan of no price": (["plan", "--price", "nan"], "price nan is not an amount"),
    "a plan of data elsewhere": (
        ["plan", "--set", "data.source=/no/such"],
        "set the number of images with --images",
    ),
    "a plan of too little data": (["plan", "--images", "100"], "batch size 128 is larger"),
    "a plan in bfloat16 without units": (
        ["plan", "--gpu", "t4", "--set", "train.precision=bfloat16"],
        "no bfloat16 units",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_gets_one_sentence_and_exit_code_2(call, case: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    words, expected = BAD_INPUT[case]
    code, _, errors = call(*words)
    assert code == 2
    assert expected in errors and errors.startswith("openjepa: ") and errors.count("\n") == 1, errors
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_masks_are_drawn_and_counted(call, tmp_path: Path) -> None:
    code, out, _ = call("masks", "--images", "256", "--figure", str(tmp_path / "m.png"), "--json")
    result = json.loads(out)
    assert code == 0 and result["overlap"] == 0 and abs(result["context_share"] - 0.25) < 0.01
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")


def test_the_old_name_of_the_figure_option_still_works(call, tmp_path: Path) -> None:
    code, out, _ = call("masks", "--images", "8", "--batch-size", "4", "--picture", str(tmp_path / "m.png"))
    assert code == 0 and "m.png" in out and (tmp_path / "m.png").exists()


def test_recipes_are_listed_with_machine_time_and_numbers(call) -> None:
    code, out, _ = call("recipes")
    assert code == 0 and "imagenet/vit_h14" in out and "20 minutes" in out and "linear probe 79.3 %" in out
    code, out, _ = call("recipes", "imagenet/vit_b16")
    assert code == 0 and "machine   16 A100 80 GB" in out and "our best proxy" in out, "the note is shown, too"
    assert max(len(line) for line in out.splitlines()) <= 120
    code, out, _ = call("recipes", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert (
        code == 0 and rows["cifar10_20min"]["machine"] == "2 CPU cores" and "60.2" in rows["cifar10_20min"]["expected"]
    )


def test_a_recipe_is_planned_and_trained_by_its_name(call, tmp_path: Path) -> None:
    code, out, errors = call("plan", "cifar10_20min", "--images", "50000", "--json")
    assert code == 0 and json.loads(out)["images at a time"] == 64, errors
    words = ["--data", "scenes:64", "--set", "train.batch_size=16", "--steps", "1", "--run", str(tmp_path / "run")]
    code, out, errors = call("pretrain", "cifar10_20min", *words)
    assert code == 0 and "finished: 1 step," in out, errors
    assert "target_centering: whiten" in (tmp_path / "run" / "config.yaml").read_text()
    assert "imports" not in (tmp_path / "run" / "config.yaml").read_text(), "the key is written only if there are some"


def test_masks_as_a_table_name_rows_and_shares(call) -> None:
    code, out, _ = call("masks", "--images", "256", "--name", "reference", "--no-draw")
    assert code == 0 and "context share" in out and "target, column" in out


def test_data_info_and_check_of_a_folder_with_a_broken_image(call, tmp_path: Path) -> None:
    folder = runner.make_images(tmp_path / "images", number=5)
    (folder / "bad.jpg").write_bytes(b"")
    code, out, _ = call("data", "info", str(folder), "--json")
    assert code == 0 and "6" in out
    code, out, _ = call("data", "check", str(folder), "--json")
    assert code == 1 and "bad.jpg" in out and "empty file" in out


@pytest.mark.slow
def test_the_doctor_says_what_works(call) -> None:
    code, out, _ = call("doctor", "--json")
    result = json.loads(out)
    assert code == 0 and result["precision"]["float32"] == "works" and result["device"] in ("cpu", "cuda:0")
    assert result["precision"]["bfloat16"].startswith(("works", "does not work"))


def test_bench_prints_json(call) -> None:
    code, out, _ = call("bench", "masks", "--batch-size", "8", "--json")
    assert code == 0 and {row["masks"] for row in json.loads(out)} >= {"multiblock", "reference"}
    code, out, _ = call("bench", "step", "--model", "vit-nano/8", "--batch-size", "4", "--steps", "2", "--json")
    result = json.loads(out)
    assert code == 0 and result["images per second"] > 0 and 0 < result["share of peak"] < 1.5
    code, _, errors = call("bench", "step", "--batch-size", "4")
    assert code == 2 and "need a --model" in errors


def test_a_plan_prints_words_and_json(call) -> None:
    words = ["plan", "--gpus", "2", "--set", "model.name=vit-nano/8", "--set", "data.image_size=64"]
    code, out, _ = call(*words)
    assert code == 0 and "target_encoder" in out and "fits with DDP" in out and "implies 18.8 % of the peak" in out
    code, out, _ = call(*words, "--json")
    result = json.loads(out)
    assert code == 0 and result["images at a time"] == 64 and result["fits"] == {"DDP": True, "FSDP": True}
    assert result["GPU hours"] == pytest.approx(2 * result["hours"])


def test_bench_data_measures_every_size(call) -> None:
    sizes = ["--image-size", "32", "--image-size", "48"]
    code, out, errors = call("bench", "data", "--images", "4", "--batch-size", "2", *sizes, "--json")
    assert code == 0, errors
    rows = json.loads(out)
    assert [row["size"] for row in rows] == [32, 48] and all(row["openjepa, images/s"] > 0 for row in rows)
    assert all(40 < row["kB a file"] < 120 for row in rows), "about what a photo of this size has"


@pytest.mark.slow
def test_pretrain_evaluate_and_runs_work_together(call, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "one"
    words = ["--set", "data.image_size=32", "--set", "train.batch_size=16", "--model", "vit-nano/8"]
    code, out, errors = call(
        "pretrain", "--recipe", "paper", "--data", "scenes:64", "--run", str(run), "--steps", "3", *words
    )
    assert code == 0 and "finished: 3 steps" in out, errors
    folder = tmp_path / "labelled"
    for name in ("a", "b"):
        runner.make_images(folder / name, number=20)
    code, out, _ = call("evaluate", str(run), "--task", str(folder), "--json")
    scores = json.loads(out)
    assert code == 0 and {score["representation"] for score in scores} == {"pixels", "random encoder", "trained"}
    assert {score["probe"] for score in scores} == {"knn", "logistic", "linear"}
    code, out, _ = call("runs", str(tmp_path / "runs"), "--json")
    (row,) = json.loads(out)
    assert code == 0 and row["status"] == "finished" and row["steps"] == 3 and str(folder) in row


@pytest.mark.slow
def test_the_table_shows_labels_intervals_and_gains(call, tmp_path: Path) -> None:
    words = ["evaluate", "random:vit-nano/8", "--image-size", "16", "--task", "scenes-material", "--probe", "knn"]
    code, out, errors = call(*words, "--labels", "4/class", "--draws", "2")
    assert code == 0, errors
    assert "fresh weights [95 %]" in out and "4/class (8)" in out and "gain [95 %]" in out and " ± " in out
    assert "20,000 training and 4,000 test images, 2 classes" in out


@pytest.mark.slow
def test_minutes_are_turned_into_steps_that_are_recorded_and_resume_uses_the_same_number(call, tmp_path: Path) -> None:
    words = [
        "pretrain",
        "--data",
        "scenes:64",
        "--run",
        str(tmp_path / "run"),
        "--minutes",
        "0.05",
        "--model",
        "vit-nano/8",
    ]
    words += ["--set", "data.image_size=32", "--set", "train.batch_size=16"]
    code, _, errors = call(*words)
    assert code == 0 and "minutes are about" in errors, errors
    assert "measuring speed" in errors and "GiB of memory" in errors
    decisions = [json.loads(line) for line in (tmp_path / "run/pace.jsonl").read_text().splitlines()]
    steps = json.loads((tmp_path / "run/provenance.json").read_text())["steps"]
    assert decisions[0]["step"] == 0 and decisions[-1]["total"] == steps
    code, _, errors = call(*words, "--resume")
    assert code == 0 and "is finished" in errors, errors
