"""The verbs that look at runs and masks. Heavy imports stand inside, so that --help and a typo answer at once."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from openjepa.cli import tables
from openjepa.cli.options import AsJson, Count, Overrides


def evaluate(
    run: Path,
    *,
    task: Annotated[list[str], Parameter(negative=(), consume_multiple=False)],
    probe: Annotated[list[str] | None, Parameter(negative=(), consume_multiple=False)] = None,
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


def masks(
    *,
    name: str = "multiblock",
    image_size: Count = 224,
    patch_size: Count = 16,
    batch_size: Count = 128,
    images: Count = 4096,
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


def report(run: Path) -> None:
    """Write RUN/report.html: curves, masks, attention, PCA, predictions, scores; one file, no network needed.

    Example: openjepa report runs/mine
    """
    from openjepa.app import report as reports

    tables.say(f"written: {reports.write(run)}")


def runs(folder: Path = Path("runs"), *, json: AsJson = False) -> None:
    """A table of the runs below a folder.

    Example: openjepa runs
    """
    from openjepa.app.list_runs import list_runs

    tables.rows(list_runs(folder), as_json=json, empty=f"no runs below {folder}")
