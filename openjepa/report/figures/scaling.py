"""Cost against size, both on logarithmic axes: a straight line whose slope is the exponent."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from openjepa.report.figures.panels import WIDTH
from openjepa.report.figures.style import FAINT, INK, SMALL, TINTS, chart

HEIGHT = 3.0  # inches
Curve = Mapping[str, Sequence[float]]  # part -> milliseconds at each size


def figure(sweeps: Mapping[str, tuple[Sequence[float], Curve]]) -> Figure:
    """A panel for each quantity that grows: (its sizes, the milliseconds of each part)."""
    figure = Figure(figsize=(WIDTH, HEIGHT))
    figure.subplots_adjust(left=0.06, right=0.99, top=0.84, bottom=0.16, wspace=0.25)
    for index, (name, (sizes, curves)) in enumerate(sweeps.items()):
        axes = figure.add_subplot(1, len(sweeps), index + 1)
        chart(axes, f"Cost against {name}", "milliseconds; dotted: linear")
        for (part, milliseconds), colour in zip(curves.items(), TINTS, strict=False):
            axes.plot(sizes, milliseconds, color=colour, linewidth=1.4, marker="o", markersize=3, label=part)
            linear = [milliseconds[0] * size / sizes[0] for size in sizes]
            axes.plot(sizes, linear, color=FAINT, linewidth=0.7, linestyle=":")
        axes.set(xscale="log", yscale="log")
        axes.set_xticks(list(sizes), [f"{size:g}" for size in sizes])
        axes.minorticks_off()
        axes.set_xlabel(name, color=INK, fontsize=SMALL)
        if index == 0:
            axes.legend(fontsize=SMALL, frameon=False, labelcolor=INK)
    return figure
