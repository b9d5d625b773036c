"""`openjepa speedrun`: CIFAR-10 with a budget of counted operations, so that a laptop and a GPU run the same race.

Rules and records: docs/speedrun.md. Every product of matrices in training counts, whatever its precision: forward and backward
passes as `openjepa plan` counts them, and the optimiser's. Element-wise work, data and the evaluation are free.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from openjepa.core import config as configs
from openjepa.core import settings
from openjepa.core.config import Config
from openjepa.core.errors import BadInput, OpenJepaError
from openjepa.data.open import open_source
from openjepa.evaluation.evaluate import evaluate
from openjepa.machine import console
from openjepa.methods import build
from openjepa.planning import cost
from openjepa.runs import metrics, provenance
from openjepa.runs.directory import RunFolder, write_json
from openjepa.runs.scores import TRAINED
from openjepa.training import muon, recipe, setup
from openjepa.training.pretrain import pretrain

PETA = 1e15
TRACKS = (0.2, 2.0)  # PFLOP
NUM_IMAGES, SIDE, NUM_CLASSES = 50_000, 32, 10  # CIFAR-10's training split
RECORD = "speedrun.json"


@dataclass(frozen=True, kw_only=True)
class Result:
    seed: int
    steps: int
    seconds: float  # of training, on this machine
    knn: float
    logistic: float  # on the last four blocks


@dataclass(frozen=True, kw_only=True)
class Record:
    """One line of the table of records."""

    day: str
    change: str
    track: float  # PFLOP
    results: tuple[Result, ...]
    commit: str
    config: str  # the recipe or file

    def row(self) -> str:
        """As Markdown: both scores and the seconds, seed by seed."""
        knn, logistic, seconds = (
            " · ".join(form.format(value) for value in values)
            for form, values in (
                ("{:.1%}", [result.knn for result in self.results]),
                ("{:.1%}", [result.logistic for result in self.results]),
                ("{:.0f}", [result.seconds for result in self.results]),
            )
        )
        return f"| {self.day} | {self.change} | {knn} | {logistic} | {seconds} | {self.commit[:8]} | `{self.config}` |"


def race(
    name: str | Path,
    data: str,
    *,
    track: float,
    seeds: Sequence[int],
    folder: Path,
    change: str,
    given: Mapping[str, Any],
) -> Record:
    """One run for each seed, from its first weights to both scores; a run that is there already resumes."""
    check_data(data)
    values = settings.copied(recipe.read_fixed(name))
    for path, value in {**given, "data.source": data, "train.steps": 1}.items():
        settings.put(values, path, value)
    config = configs.load(values)
    check_rules(config)
    steps = steps_within(track * PETA, config)
    console.notice(f"{track:g} PFLOP are {steps:,} steps of {flops_per_step(config) / 1e9:.1f} GFLOP")
    runs = [configs.load(values, words={"train.steps": steps, "seed": seed}) for seed in seeds]
    results = [_result(run, folder / f"seed-{run.seed}", data) for run in runs]
    commit = provenance.read(RunFolder(folder / f"seed-{seeds[0]}")).commit or "unknown"
    record = Record(
        day=str(date.today()), change=change, track=track, results=tuple(results), commit=commit, config=str(name)
    )
    write_json(folder / RECORD, asdict(record))
    return record


def check_data(data: str) -> None:
    """The race is on CIFAR-10's training images, all of them and no others."""
    source = open_source(data)
    shape = tuple(source[0].image.shape[1:])
    open_source(data, split="test")  # a source without test images is refused now, not after the training
    num_classes = max((len(labels.unique()) for labels in source.all_labels().values()), default=0)
    if len(source) != NUM_IMAGES or shape != (SIDE, SIDE) or num_classes != NUM_CLASSES:
        raise BadInput(
            f"{data} has {len(source):,} training images of {num_classes} classes, the first of {shape[0]}×{shape[1]} px; the race "
            f"is on the {NUM_IMAGES:,} training images of CIFAR-10, {SIDE}×{SIDE} px: give --data cifar10:DIR or npz:FILE"
        )


def check_rules(config: Config) -> None:
    """No labels during training: also a probe that only watches could choose what is kept."""
    if config.monitors.get("probe", False) is not False:
        raise BadInput("the monitor probe looks at labels, which the race forbids; add --set monitors.probe=off")


def steps_within(flops: float, config: Config) -> int:
    steps = int(flops / flops_per_step(config))
    if not steps:
        raise BadInput(f"{flops:g} operations are less than one step, which takes {flops_per_step(config):.3g}")
    return steps


def flops_per_step(config: Config) -> float:
    """Of all processes together."""
    config = setup.resolve(config)
    size = config.train.batch_size
    images = size * cost.count(config, num_images=size, precision="float32").flops
    return images + (muon.flops(build.outline(config)) if config.optim.name == "muon" else 0.0)


def _result(config: Config, folder: Path, data: str) -> Result:
    """A run that is there already must have the same settings; it resumes, or is only evaluated."""
    run = RunFolder(folder)
    done = pretrain(config, folder, resumes=run.holds_a_run)
    if not done.is_finished:
        raise OpenJepaError(f"{folder} stopped before its end; the same command resumes it")
    assert done.steps == config.train.steps, "the budget"
    knn, logistic = (_accuracy(folder, data, *how) for how in (("knn", "last"), ("logistic", "last4")))
    seconds = metrics.read(run.metrics)[-1]["wall"]  # of training alone, over all its sessions
    return Result(seed=config.seed, steps=done.steps, seconds=seconds, knn=knn, logistic=logistic)


def _accuracy(folder: Path, data: str, probe: str, features: str) -> float:
    scores = evaluate(folder, data, probe=probe, features=features)
    return next(score.accuracy for score in scores if score.representation == TRAINED)
