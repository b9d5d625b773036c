"""`openjepa evaluate`: probe a frozen encoder."""

from typing import Annotated

from cyclopts import Parameter

from openjepa.cli import tables
from openjepa.cli.options import AsJson
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

    Example: openjepa evaluate runs/mine --task photos/ --baseline patches

    Scores of a run are saved in RUN/evals. Features are cached in ~/.cache/openjepa (see OPENJEPA_CACHE), so a second
    probe on the same images is quick.

    Args:
        run: A run folder, a checkpoint folder, a weights file, the official .pth.tar, or random:vit-mini/4 for fresh weights.
        task: A task such as cifar10:DIR, imagenet1k:DIR, clevr-count:DIR, scenes-count; folder:DIR; any labelled source; or all.
    """
    from openjepa.evaluation.evaluate import evaluate as evaluate_run

    tables.scores(evaluate_run(run, task, request=request), as_json=json)
