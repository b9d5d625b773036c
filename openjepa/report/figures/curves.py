"""What training looked like: a small plot for each metric, titled in plain words."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from openjepa.report.figures.panels import WIDTH
from openjepa.report.figures.style import BLUE, INK, SMALL, chart
from openjepa.runs.metrics import series

COLUMNS, HEIGHT = 3, 1.95  # inches a row
# name -> (title, how to read it), the most important first
TITLES = {
    "train/loss": ("Loss", "distance of prediction and target"),
    "probe/logistic": ("Logistic probe", "accuracy on a small labelled slice"),
    "probe/knn": ("k-NN probe", "accuracy on a small labelled slice"),
    "collapse/token_rank": ("Directions in use by tokens", "half of the start is narrow"),
    "prediction/skill": ("Skill of predictions", "0: knows only the position; 1: perfect"),
    "prediction/std": ("Spread of predictions", "0: the same prediction for every image"),
    "collapse/feature_std": ("Spread over images", "0 is collapse"),
    "collapse/mean_cosine": ("Likeness of two images (cosine)", "1 is collapse"),
    "collapse/position_share": ("Share explained by position", "1: tokens encode position, not content"),
    "collapse/rankme": ("Directions in use (RankMe)", "of pooled features; 1 is collapse"),
    "collapse/effective_rank": ("Directions, centred", "1: a single one is left"),
    "train/gradient_norm": ("Length of the gradient", "spikes mean an unstable run"),
    "gradients/context_encoder": ("… in the context encoder", "0: the context is not used"),
    "gradients/predictor": ("… in the predictor", "after clipping"),
    "throughput/images_per_second": ("Images per second", "higher is faster"),
    "data/wait_share": ("Time spent waiting for data", "share of a step; near 0 is good"),
    "train/lr": ("Learning rate", "scheduled"),
    "train/weight_decay": ("Weight decay", "scheduled"),
    "masks/context_patches": ("Context patches", "seen, of each image"),
    "masks/target_patches": ("Patches per target block", "to be predicted"),
}
NOT_METRICS = ("step", "wall")


def figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """The rows of a metrics.jsonl; known metrics first, others under their own names."""
    names = shown(rows)
    num_rows = max(math.ceil(len(names) / COLUMNS), 1)
    height = num_rows * HEIGHT + 0.3
    figure = Figure(figsize=(WIDTH, height))
    figure.subplots_adjust(
        left=0.055, right=0.985, top=1 - 0.5 / height, bottom=0.45 / height, wspace=0.22, hspace=0.95
    )
    for index, name in enumerate(names):
        axes = figure.add_subplot(num_rows, COLUMNS, index + 1)
        steps, values = series(list(rows), name)  # type: ignore[arg-type]
        chart(axes, *TITLES.get(name, (name, "")))
        marker = "o" if len(steps) < 3 else None  # two points make no curve
        axes.plot(steps, values, color=BLUE, linewidth=1.4, marker=marker, markersize=3.5)
        if index + COLUMNS >= len(names):
            axes.set_xlabel("step", color=INK, fontsize=SMALL)
    return figure


def shown(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    present = dict.fromkeys(name for row in rows for name in row if name not in NOT_METRICS)
    return [name for name in TITLES if name in present] + [name for name in present if name not in TITLES]
