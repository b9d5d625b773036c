"""The verbs that run studies. Heavy imports are inside the functions: --help and typos respond at once."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cyclopts import Parameter

from openjepa.cli import tables
from openjepa.cli.options import AsJson, Count, Overrides, Words
from openjepa.core.errors import BadInput

if TYPE_CHECKING:
    from openjepa.studies.study import Study, Terms


@Parameter(name="*")  # its fields are options of the verb
@dataclass(frozen=True, kw_only=True)
class Shared:
    """What every run of a study shares.

    Args:
        tasks: What to evaluate on, separated by commas.
        base: A YAML file with the settings of all runs.
        data: A folder of images, or a source such as cifar10:DIR.
        model: Encoder, such as vit-micro/8.
        image_size: In pixels.
        minutes: Budget: wall-clock time of each run.
        epochs: Budget: passes over the data.
        flops: Budget: floating-point operations of each run, such as 1e15.
        seeds: Runs of each arm, with seeds 0, 1, …
        probes: knn, logistic, linear, separated by commas.
        labels: How many labels the probes see: 1%, 5/class, or a list file; default: all.
        features: What knn and logistic see: the last block or the last four.
        jobs: Runs side by side, each with its share of the cores.
        run: The folder of the study.
        set_: Any other setting of all runs, such as --set train.batch_size=64; may be given many times.
    """

    tasks: str
    base: Path | None = None
    data: str | None = None
    model: str | None = None
    image_size: Count | None = None
    minutes: float | None = None
    epochs: float | None = None
    flops: float | None = None
    seeds: Count = 2
    probes: str = "knn,logistic"
    labels: str | None = None
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

    @property
    def terms(self) -> "Terms":
        from openjepa.studies.study import Terms, base_settings

        options = {
            "data.source": self.data,
            "data.image_size": self.image_size,
            "model.name": self.model,
            "train.minutes": self.minutes,
            "train.epochs": self.epochs,
        }
        tasks, probes = _split(self.tasks), _split(self.probes)
        base = base_settings(self.base, options, self.set_ or [], watched=tasks[0])
        return Terms(
            base=base,
            seeds=tuple(range(self.seeds)),
            tasks=tasks,
            probes=probes,
            labels=self.labels,
            features=self.features,
            budget=self.budget,
        )


def compare(*, methods: str = "all", shared: Shared, json: AsJson = False) -> None:
    """Train several methods on the same encoder and data at an equal budget, and evaluate them alike.

    Example: openjepa compare --methods ijepa,mae --data photos/ --image-size 64 --model vit-micro/8 --minutes 10 --tasks labelled/

    Writes a folder with all runs, a table, a page and the numbers. Run the same command again to resume.

    Args:
        methods: Names separated by commas, or all.
    """
    from openjepa.studies import compare as comparison

    _run(comparison.study(_split(methods), shared.terms), shared, Path("comparison"), json)


def ablate(name: str, *, only: Words = None, shared: Shared, json: AsJson = False) -> None:
    """Change one thing at a time, as the paper's ablations do, and show how the scores change.

    Example: openjepa ablate masks --base configs/cifar10_20min.yaml --data cifar10:DIR --minutes 3 --tasks cifar10:DIR

    Args:
        name: masks, targets, target-masking, predictor-depth, predictor-width, num-targets, target-scale, context-scale, ema,
            weight-decay, model-size, or a YAML file of your own.
        only: An arm; may be given many times; default: all of them.
    """
    from openjepa.studies import ablate as ablation

    study = ablation.study(name, shared.terms, only=only or [])
    _run(study, shared, Path(f"ablation-{Path(name).stem}"), json)


def _run(study: "Study", shared: Shared, default_folder: Path, json: bool) -> None:
    from openjepa.studies import budgets, run, table

    if shared.flops is not None:
        study = budgets.with_equal_flops(study, shared.flops)
    folder = shared.run or default_folder
    rows = run.run(study, folder, jobs=shared.jobs, command=shlex.join(["openjepa", *sys.argv[1:]]))
    if json:
        tables.as_json_text(table.as_dict(study, rows))
        return
    tables.say(table.markdown(study, rows))
    tables.say(f"written: {folder / 'index.html'}")


def _split(words: str) -> tuple[str, ...]:
    names = tuple(word.strip() for word in words.split(",") if word.strip())
    if not names:
        raise BadInput(f'"{words}" holds no name; expected names separated by commas')
    return names
