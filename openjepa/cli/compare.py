"""`openjepa compare`, and the options and steps that it shares with `openjepa ablate`."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cyclopts import Parameter

from openjepa.cli import tables
from openjepa.cli.options import AsJson, Count, Imports, Overrides, Words
from openjepa.core import registry
from openjepa.core.errors import BadInput

if TYPE_CHECKING:
    from openjepa.studies.study import Study, Terms


@Parameter(name="*")  # its fields are options of the verb
@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """What all runs of a study share.

    Args:
        tasks: The tasks to evaluate on, separated by commas.
        base: A recipe by name or a YAML file with settings for all runs.
        data: A folder of images, or a source such as cifar10:DIR.
        model: Encoder, such as vit-micro/8.
        image_size: In pixels.
        minutes: Budget: wall-clock time of each run.
        epochs: Or budget in data: passes over it.
        flops: Or budget in compute: floating-point operations of each run, such as 1e15.
        seeds: Runs of each arm, with seeds 0, 1, …
        probes: knn, logistic, linear, separated by commas.
        labels: How many labels the probes may use: 1%, 5/class, or a list file; default all.
        baseline: patches, a dictionary of image patches, besides raw pixels and random weights; takes minutes.
        features: What knn and logistic use: the last block or the last four.
        jobs: Runs at the same time, each with its share of the cores.
        run: The folder of the study.
        set_: A setting for all runs, such as --set train.batch_size=64; repeatable.
    """

    tasks: str
    base: str | None = None
    data: str | None = None
    model: str | None = None
    image_size: Count | None = None
    minutes: float | None = None
    epochs: float | None = None
    flops: float | None = None
    seeds: Count = 2
    probes: str = "knn,logistic"
    labels: str | None = None
    baseline: Words = None
    features: Literal["last", "last4"] = "last"
    jobs: Count = 1
    run: Path | None = None
    set_: Overrides = None

    @property
    def budget(self) -> str:
        budgets = {"minutes": self.minutes, "epochs": self.epochs, "FLOP": self.flops}
        chosen = [f"{value:g} {unit} each" for unit, value in budgets.items() if value is not None]
        if len(chosen) != 1:
            raise BadInput(f"{len(chosen) or 'no'} budgets are given; give one of --minutes, --epochs and --flops")
        return chosen[0]

    def terms(self, imports: tuple[str, ...]) -> "Terms":
        from openjepa.studies.study import Terms, base_settings

        words = {
            "data.source": self.data,
            "data.image_size": self.image_size,
            "model.name": self.model,
            "train.minutes": self.minutes,
            "train.epochs": self.epochs,
            "imports": list(imports) or None,
        }
        tasks, probes = _split(self.tasks), _split(self.probes)
        base = base_settings(self.base, words, self.set_ or [], watched=tasks[0])
        registry.check_imported(base.get("imports") or ())
        return Terms(
            base=base,
            seeds=tuple(range(self.seeds)),
            tasks=tasks,
            probes=probes,
            labels=self.labels,
            features=self.features,
            baselines=tuple(dict.fromkeys(self.baseline or ())),
            budget=self.budget,
        )


def compare(*, methods: str = "all", options: StudyOptions, json: AsJson = False, imports: Imports = ()) -> None:
    """Train several methods on the same encoder and data at an equal budget, and evaluate them in the same way.

    Example: openjepa compare --methods ijepa,mae --data photos/ --image-size 64 --model vit-micro/8 --minutes 10 --tasks labelled/

    Writes a folder with all runs, a table, a page and the numbers. Run the same command to resume an interrupted study.

    Args:
        methods: Names separated by commas, or all.
    """
    from openjepa.studies import compare as comparison

    study = comparison.study(_split(methods), options.terms(imports))
    run_study(study, options, Path("comparison"), as_json=json)


def run_study(study: "Study", options: StudyOptions, default_folder: Path, *, as_json: bool) -> None:
    from openjepa.studies import budgets, run, table

    if options.flops is not None:
        study = budgets.with_equal_flops(study, options.flops)
    folder = options.run or default_folder
    rows = run.run(study, folder, jobs=options.jobs, command=shlex.join(["openjepa", *sys.argv[1:]]))
    if as_json:
        tables.as_json_text(table.as_dict(study, rows))
        return
    tables.say(table.markdown(study, rows))
    tables.say(f"written: {folder / 'index.html'}")


def _split(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise BadInput(f'"{text}" has no names; give names separated by commas')
    return names
