"""The verbs that look at runs and masks. Heavy imports are inside the functions: --help and typos respond at once."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from openjepa.cli import tables
from openjepa.cli.options import AsJson, Count, Overrides
from openjepa.evaluation.request import Request

DEFAULTS = Request()


def evaluate(
    run: str,
    *,
    task: Annotated[list[str], Parameter(negative=(), consume_multiple=False)],
    request: Request = DEFAULTS,
    json: AsJson = False,
) -> None:
    """Probe a frozen encoder, and compare it with raw pixels and the same encoder with random weights.

    Example: openjepa evaluate runs/mine --task cifar10:data/cifar10 --task scenes-count

    Example: openjepa evaluate runs/mine --task photos/ --labels 5/class --draws 5

    Scores of a run are saved in RUN/evals. Features are cached in ~/.cache/openjepa (see OPENJEPA_CACHE), so a second
    probe on the same images is quick.

    Args:
        run: A run folder, a checkpoint folder, a weights file, the official .pth.tar, or random:vit-mini/4 for fresh weights.
        task: A task such as cifar10:DIR, imagenet1k:DIR, clevr-count:DIR, scenes-count; folder:DIR; any labelled source; or all.
    """
    from openjepa.evaluation.evaluate import evaluate as evaluate_run

    tables.scores(evaluate_run(run, task, request=request), as_json=json)


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

    Args:
        name: multiblock, reference, random, block or rasterized.
        image_size: In pixels.
        patch_size: In pixels.
        batch_size: Matters for reference, whose context depends on it.
        images: How many to count over.
        seed: Of the draws.
        picture: Where to save examples and coverage.
        draw: --no-draw prints only.
        set_: Options of the strategy, such as --set num_targets=2.
    """
    from openjepa.cli import inspect_masks

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

    Args:
        run: A run folder.
    """

    from openjepa.report.write import write

    tables.say(f"written: {write(run)}")


def runs(folder: Path = Path("runs"), *, json: AsJson = False) -> None:
    """A table of the runs below a folder.

    Example: openjepa runs

    Args:
        folder: Where to look, at any depth.
    """
    from openjepa.cli.list_runs import list_runs

    tables.rows(list_runs(folder), as_json=json, empty=f"no runs below {folder}")
