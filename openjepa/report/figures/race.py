"""Accuracy against minutes, a colour for each arm of a study, a line for each seed."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from openjepa.report.figures.panels import WIDTH
from openjepa.report.figures.style import INK, SMALL, TINTS, chart

STYLES = ("-", "--", ":")  # when there are more arms than colours
Curve = tuple[Sequence[float], Sequence[float]]  # minutes, accuracy


def figure(curves: Mapping[str, Sequence[Curve]], title: str) -> Figure:
    figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    axes = figure.add_subplot()
    chart(axes, title, "accuracy of a small probe while training, in %")
    for index, (name, seeds) in enumerate(curves.items()):
        colour, style = TINTS[index % len(TINTS)], STYLES[index // len(TINTS) % len(STYLES)]
        for seed, (minutes, accuracy) in enumerate(seeds):
            label = name if seed == 0 else None
            axes.plot(minutes, [100 * value for value in accuracy], style, color=colour, linewidth=1.4, label=label)
    axes.set_xlabel("minutes of training", color=INK, fontsize=SMALL)
    axes.legend(fontsize=SMALL, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), labelcolor=INK)
    return figure
