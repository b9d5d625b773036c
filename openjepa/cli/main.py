"""The command `openjepa`: a thin layer that turns words into calls of openjepa.app and prints what comes back.

Heavy imports stand inside the verbs, so that --help and a typo answer at once. Exit codes: 0, 1 failed, 2 bad input.
"""

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Parameter

import openjepa
from openjepa.cli import tables
from openjepa.core.errors import BadInput, OpenJepaError

app = App(
    name="openjepa",
    version=openjepa.__version__,
    help="Learn image representations from unlabelled pictures (I-JEPA). Start with: openjepa demo",
    help_format="plaintext",
)
data = App(name="data", help="Look at pictures before training on them.")
bench = App(name="bench", help="Measure this machine: masks, training step.")
app.command(data)
app.command(bench)

Overrides = Annotated[list[str] | None, Parameter(name="--set", negative=(), consume_multiple=False)]
AsJson = Annotated[bool, Parameter(name="--json", negative=())]


@app.command
def demo(*, run: Path = Path("demo"), minutes: float = 5.0, seed: int = 0) -> None:
    """The whole path on embedded data: pretrain, probe, report, in minutes on 2 cores.

    Example: openjepa demo

    Parameters
    ----------
    run: Where to put the run folder; an earlier demo there is replaced.
    minutes: Time for training.
    seed: Of weights, order, crops and masks.
    """
    from openjepa.app import demo as demonstration

    scores = demonstration.run(run, minutes=minutes, seed=seed)
    if scores:
        tables.scores(scores, as_json=False)


@app.command
def pretrain(
    config: Path | None = None,
    *,
    data: str | None = None,
    run: Path | None = None,
    method: str | None = None,
    model: str | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    minutes: float | None = None,
    set_: Overrides = None,
    resume: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Learn from unlabelled pictures; leaves a run folder.

    Example: openjepa pretrain --data photos/ --model vit-tiny/16 --epochs 50

    Under torchrun the same command uses all processes. A killed run goes on with: openjepa pretrain --run DIR --resume

    Parameters
    ----------
    config: A YAML file; only what differs from the defaults.
    data: A folder of pictures, a list file, or a source such as scenes, cifar10:DIR, npz:FILE.
    run: The run folder; default: runs/DATE-TIME.
    method: How to learn; default ijepa.
    model: Size and patch, such as vit-tiny/16.
    epochs: Length in passes over the data.
    steps: Length in optimiser steps.
    minutes: Length in wall-clock time; the schedule is fitted after a short calibration.
    set_: Any setting by its dotted path, such as --set optim.lr=1e-3; may be given many times.
    resume: Continue the run in --run.
    """
    from openjepa.app.pretrain import pretrain as start
    from openjepa.core import config as configs

    words = {
        "data.source": data,
        "method.name": method,
        "model.name": model,
        "train.epochs": epochs,
        "train.steps": steps,
        "train.minutes": minutes,
    }
    if sum(length is not None for length in (epochs, steps, minutes)) > 1:
        raise BadInput("more than one of --epochs, --steps and --minutes is given; keep one")
    overrides = [f"{path}={value}" for path, value in words.items() if value is not None] + (set_ or [])
    given = None
    if config is not None or overrides or not resume:
        base = configs.read(config) if config is not None else _stored(run, resume)
        given = configs.load(base, overrides)
    result = start(given, run, resumes=resume)
    if result.is_finished:
        tables.say(f"finished: {result.steps} steps, {result.folder}")


@app.command
def evaluate(
    run: Path,
    *,
    task: Annotated[list[str], Parameter(negative=(), consume_multiple=False)],
    probe: Annotated[list[Literal["knn", "logistic"]] | None, Parameter(negative=(), consume_multiple=False)] = None,
    encoder: Literal["target", "context"] = "target",
    json: AsJson = False,
) -> None:
    """Probe a trained encoder, beside raw pixels and the same encoder with random weights.

    Example: openjepa evaluate runs/mine --task cifar10:data/ --task scenes-count

    Parameters
    ----------
    run: A run folder, a checkpoint folder or a weights file.
    task: scenes-count, scenes-dist, scenes-shape, or any labelled source; may be given many times.
    probe: Which probes; default both.
    encoder: The target encoder, as in the paper, or the context encoder.
    json: Print JSON instead of a table.
    """
    from openjepa.app.evaluate import evaluate as probe_run

    scores = probe_run(run, task, probe_names=probe or ("knn", "logistic"), which=encoder)
    tables.scores(scores, as_json=json)


@app.command
def masks(
    *,
    name: str = "multiblock",
    image_size: int = 224,
    patch_size: int = 16,
    batch_size: int = 128,
    images: int = 4096,
    seed: int = 0,
    picture: Path = Path("masks.png"),
    draw: bool = True,
    set_: Overrides = None,
    json: AsJson = False,
) -> None:
    """Draw example masks and count what they cover, before you train with them.

    Example: openjepa masks --name reference --batch-size 128

    Parameters
    ----------
    name: multiblock, reference, random, block or rasterized.
    image_size: In pixels.
    patch_size: In pixels.
    batch_size: Matters for reference, whose context depends on it.
    images: How many to count over.
    seed: Of the draws.
    picture: Where to save examples and coverage.
    draw: --no-draw prints only.
    set_: Options of the strategy, such as --set num_targets=2.
    json: Print JSON instead of a table.
    """
    from openjepa.app import inspect_masks

    found = inspect_masks.inspect(
        name,
        set_ or [],
        image_size=image_size,
        patch_size=patch_size,
        batch_size=batch_size,
        num_images=images,
        seed=seed,
    )
    if draw:
        inspect_masks.draw(found, picture)
    tables.coverage(found.coverage, as_json=json, picture=picture if draw else None)


@data.command
def check(source: str, *, json: AsJson = False) -> None:
    """Decode every picture and list what is broken, tiny, rotated, odd or duplicate. Exit code 1 if any is broken.

    Example: openjepa data check photos/
    """
    from openjepa.app import console
    from openjepa.data import check as checks
    from openjepa.data.spec import open_source

    report = checks.check(open_source(source), spec=source, track=None if json else console.track)
    tables.check(report, as_json=json)
    if report.broken:
        sys.exit(1)


@data.command
def info(source: str, *, json: AsJson = False) -> None:
    """Number, sizes, labels and fingerprint, without decoding everything.

    Example: openjepa data info photos/
    """
    from openjepa.data import check as checks
    from openjepa.data.spec import open_source

    tables.mapping(checks.info(open_source(source), spec=source).as_dict(), as_json=json)


@app.command
def report(run: Path) -> None:
    """Write RUN/report.html: curves, masks, attention, PCA, predictions, scores; one file, no network needed.

    Example: openjepa report runs/mine
    """
    from openjepa.app import report as reports

    tables.say(f"written: {reports.write(run)}")


@app.command
def runs(folder: Path = Path("runs"), *, json: AsJson = False) -> None:
    """A table of the runs below a folder.

    Example: openjepa runs
    """
    from openjepa.app.list_runs import list_runs

    tables.rows(list_runs(folder), as_json=json, empty=f"no runs below {folder}")


@bench.command(name="masks")
def bench_masks(*, batch_size: int = 256, grid: int = 14, json: AsJson = False) -> None:
    """Milliseconds to draw masks for a batch, on one thread, for every strategy.

    Example: openjepa bench masks
    """
    from openjepa.app import bench as benches

    tables.rows(benches.masks(batch_size=batch_size, side=grid), as_json=json)


@bench.command(name="step")
def bench_step(
    *,
    model: str = "vit-tiny/4",
    image_size: int = 32,
    batch_size: int = 128,
    steps: int = 10,
    set_: Overrides = None,
    json: AsJson = False,
) -> None:
    """Images per second of a training step, and the share of this machine's matrix-product peak, measured in one run.

    Example: openjepa bench step --model vit-small/8 --image-size 96 --batch-size 64
    """
    from openjepa.app import bench as benches

    words = [f"model.name={model}", f"data.image_size={image_size}", f"train.batch_size={batch_size}", *(set_ or [])]
    tables.mapping(benches.step(words, num_steps=steps), as_json=json)


@app.command
def doctor(*, json: AsJson = False) -> None:
    """What works on this machine: devices, precisions (probed in a subprocess), threads, versions.

    Example: openjepa doctor
    """
    from openjepa.app import doctor as examine

    tables.mapping(examine.examine(), as_json=json)


def _stored(run: Path | None, resume: bool) -> dict:
    """Without a config file, `--resume` starts from the run's own settings, so `--set data.workers=4` changes only that."""
    from openjepa.core import config as configs
    from openjepa.runs.directory import RunFolder

    folder = RunFolder(run) if run is not None else None
    return configs.read(folder.config) if resume and folder is not None and folder.holds_a_run else {}


def main() -> None:
    """Runs the command; one clear sentence on stderr and an exit code for everything a user can mend."""
    try:
        app(sys.argv[1:], exit_on_error=False, print_error=False)
    except OpenJepaError as error:
        _fail(str(error), error.exit_code)
    except CycloptsError as error:
        _fail(" ".join(str(error).split()), BadInput.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except BrokenPipeError:  # the reader of our output has gone, as in `openjepa runs | head`
        sys.stderr.close()
        sys.exit(0)


def _fail(text: str, exit_code: int) -> None:
    print(f"openjepa: {text}", file=sys.stderr)
    sys.exit(exit_code)


if __name__ == "__main__":
    main()
