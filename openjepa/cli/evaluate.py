"""`openjepa evaluate`: probe a frozen encoder."""

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from openjepa.cli import tables
from openjepa.cli.options import AsJson, Count, Overrides, Words


def evaluate(
    run: str,
    *,
    task: Annotated[list[str], Parameter(negative=(), consume_multiple=False)],
    probe: Words = None,
    labels: str | None = None,
    draws: Count | None = None,
    encoder: Literal["target", "context"] = "target",
    features: Literal["last", "last4"] = "last",
    views: int = 0,
    image_size: Count | None = None,
    data: Path | None = None,
    set_: Overrides = None,
    leak_check: bool = True,
    cache: bool = True,
    json: AsJson = False,
) -> None:
    """Probe a frozen encoder, beside raw pixels and the same encoder with random weights.

    Example: openjepa evaluate runs/mine --task cifar10:data/cifar10 --task scenes-count

    Example: openjepa evaluate runs/mine --task photos/ --labels 5/class --draws 5

    Scores of a run are kept in RUN/evals; features are kept in ~/.cache/openjepa (see OPENJEPA_CACHE), so that a second
    probe on the same pictures is quick.

    Args:
        run: A run folder, a checkpoint folder, a weights file, the official .pth.tar, or random:vit-mini/4 for fresh weights.
        task: A task such as cifar10:DIR, imagenet1k:DIR, clevr-count:DIR, scenes-count; folder:DIR; any labelled source; or all.
        probe: knn, logistic, linear or finetune; may be given many times; default: the first three.
        labels: How many labels the probes may see: 1%, 5/class, or a list file; default all.
        draws: How often to draw them, or how many seeds; default 3 for a share or a number per class, else 1.
        encoder: The target encoder, as in the paper, or the context encoder.
        features: What knn and logistic see: the last block or the last four; linear tries both.
        views: Random crops for linear to train on instead of the centre crop; the paper has a new one every epoch.
        image_size: In pixels; default: that of the run.
        data: A folder that holds data sets under their usual names, for tasks without a path; also OPENJEPA_DATA.
        set_: An option of a probe, such as --set linear.epochs=10; may be given many times.
        leak_check: Whether to look for test pictures among the pictures that were learned from.
        cache: Whether to keep features on disk and to use those kept.
    """
    from openjepa.core import settings as plain
    from openjepa.evaluation.evaluate import evaluate as probe_run

    settings: dict[str, Any] = {}
    for override in set_ or []:
        plain.put(settings, *plain.parse_override(override))
    scores = probe_run(
        run,
        task,
        probe=probe,
        labels=labels,
        draws=draws,
        encoder=encoder,
        features=features,
        views=views,
        image_size=image_size,
        data=data,
        settings=settings,
        checks_leaks=leak_check,
        uses_cache=cache,
    )
    tables.scores(scores, as_json=json)
