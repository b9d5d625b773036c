"""`openjepa demo`: pretrain on `scenes`, probe three things, write the report. No download, no GPU."""

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from openjepa.cli import tables
from openjepa.core.errors import BadInput

if TYPE_CHECKING:
    from openjepa.runs.directory import RunFolder
    from openjepa.runs.scores import Score

TASKS = ("scenes-count", "scenes-dist", "scenes-colour")
PROBES = ("knn", "logistic")
NUM_TRAIN, NUM_TEST = 6000, 3000  # labelled images for the probes
RECIPE = "scenes"


def demo(*, run: Path = Path("demo"), minutes: float = 5.0, seed: int = 0) -> None:
    """Try everything on built-in data: pretrain, evaluate, report, in minutes on 2 cores.

    Example: openjepa demo

    Args:
        run: The run folder; an earlier demo in it is replaced.
        minutes: Training time.
        seed: For weights, order, crops and masks.
    """
    scores = train_and_evaluate(run, minutes=minutes, seed=seed)
    if scores:
        tables.scores(scores, as_json=False)


def train_and_evaluate(folder: Path, *, minutes: float, seed: int) -> list["Score"]:
    """Leaves the run and its report in `folder`; no scores if the training was interrupted."""
    from openjepa.core import config as configs
    from openjepa.evaluation.evaluate import evaluate
    from openjepa.machine import console
    from openjepa.report import write
    from openjepa.runs.directory import RunFolder
    from openjepa.training import recipe
    from openjepa.training.pretrain import pretrain

    config = configs.load(recipe.read(RECIPE), [f"train.minutes={minutes}", f"seed={seed}"])
    _clear(RunFolder(folder))
    began = time.perf_counter()
    console.notice(f"1/3 learning from unlabelled scenes for about {minutes:g} minutes …")
    if not pretrain(config, folder).is_finished:
        return []
    console.notice("2/3 probing the frozen encoder: how many objects, how near, which colour …")
    scores = evaluate(folder, TASKS, probe=PROBES, num_train=NUM_TRAIN, num_test=NUM_TEST)
    console.notice("3/3 writing the report …")
    path = write.write(folder)
    console.notice(f"done in {console.duration(time.perf_counter() - began)}; open {path} in a browser")
    return scores


def _clear(folder: "RunFolder") -> None:
    """Deletes an earlier demo, and nothing else."""
    if not folder.path.exists() or (folder.path.is_dir() and not any(folder.path.iterdir())):
        return
    if not _is_demo(folder):
        raise BadInput(
            f"{folder.path} exists and is not an earlier demo; move it away or choose another folder with --run"
        )
    shutil.rmtree(folder.path)


def _is_demo(folder: "RunFolder") -> bool:
    from openjepa.core import settings
    from openjepa.training import recipe

    if not (folder.holds_a_run and folder.provenance.exists()):
        return False
    stored, ours = settings.read(folder.config), recipe.read(RECIPE)
    return all(
        stored.get(section, {}).get(key) == ours[section][key]
        for section, key in (("data", "source"), ("model", "name"))
    )
