"""The main job on embedded data: pretrain on `scenes`, probe three things, write the report. No download, no GPU."""

import shutil
import time
from importlib import resources
from pathlib import Path

import yaml

from openjepa.core import config as configs
from openjepa.core import settings
from openjepa.core.errors import BadInput
from openjepa.evaluation.evaluate import evaluate
from openjepa.machine import console
from openjepa.report import write
from openjepa.runs.directory import RunFolder
from openjepa.runs.scores import Score
from openjepa.training.pretrain import pretrain

TASKS = ("scenes-count", "scenes-dist", "scenes-colour")
PROBES = ("knn", "logistic")
NUM_TRAIN, NUM_TEST = 6000, 3000  # labelled pictures for the probes
RECIPE = "demo.yaml"


def run(folder: Path, *, minutes: float, seed: int) -> list[Score]:
    """Returns the scores; leaves the run and its report in `folder`."""
    overrides = [f"train.minutes={minutes}", f"seed={seed}"]
    config = configs.load(recipe(), overrides)
    _clear(folder)
    began = time.perf_counter()
    console.notice(f"1/3 learning from unlabelled scenes for about {minutes:g} minutes …")
    result = pretrain(config, folder)
    if not result.is_finished:
        return []
    console.notice("2/3 probing the frozen encoder: how many objects, how near, which colour …")
    scores = evaluate(folder, TASKS, probe=PROBES, num_train=NUM_TRAIN, num_test=NUM_TEST)
    console.notice("3/3 writing the report …")
    path = write.write(folder)
    console.notice(f"done in {console.duration(time.perf_counter() - began)}; open {path} in a browser")
    return scores


def recipe() -> dict:
    """The settings of the demo, as shipped with the package."""
    return yaml.safe_load(resources.files("openjepa").joinpath("recipes", RECIPE).read_text(encoding="utf-8"))


def _clear(folder: Path) -> None:
    """An earlier demo may go; anything else may not."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not _is_a_demo(RunFolder(folder)):
        raise BadInput(f"{folder} exists and is not an earlier demo; move it away or choose another place with --run")
    shutil.rmtree(folder)


def _is_a_demo(folder: RunFolder) -> bool:
    if not (folder.holds_a_run and folder.provenance.exists()):
        return False
    stored, ours = settings.read(folder.config), recipe()
    return all(
        stored.get(section, {}).get(key) == ours[section][key]
        for section, key in (("data", "source"), ("model", "name"))
    )
