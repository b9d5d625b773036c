"""Plots accuracy against minutes of pretraining, beside the baselines: the figure of README's CIFAR-10 run.

python examples/plot_probe_curve.py curve.png runs/cifar10_seed0 runs/cifar10_seed1

The runs must have been trained with the monitor `probe`. This script measures the baselines on the same labelled images.
"""

import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import openjepa
from openjepa.report import record as report_record
from openjepa.report.figures.style import BLUE, FAINT, INK, ORANGE, SMALL, chart
from openjepa.report.record import Record
from openjepa.runs.directory import RunFolder

PROBE = "logistic"
BASELINES = {"pixels": ("raw pixels", FAINT), "random encoder": ("random weights", ORANGE)}


def main(output: str, *runs: str) -> None:
    records = [report_record.read(RunFolder(Path(run))) for run in runs]
    watched = records[0].config.monitors["probe"]
    assert watched, "the first run was trained without the monitor probe"
    figure = draw(records, baselines(runs[0], watched))
    figure.savefig(output, dpi=150)


def baselines(run: str, watched: dict[str, Any]) -> dict[str, float]:
    """Accuracy by representation, with the monitor's probe on the monitor's images."""
    numbers = {"num_train": watched["num_train"], "num_test": watched["num_test"]}
    scores = openjepa.evaluate(run, [watched["task"]], probe=(PROBE,), **numbers)
    return {score.representation: score.accuracy for score in scores}


def draw(records: list[Record], levels: dict[str, float]) -> Figure:
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    axes = figure.add_subplot()
    chart(axes, "What the encoder knows while it trains", "accuracy of a logistic probe on a small labelled slice, %")
    for record in records:
        rows = [row for row in record.metrics if f"probe/{PROBE}" in row]
        minutes, accuracy = zip(*((row["wall"] / 60, 100 * row[f"probe/{PROBE}"]) for row in rows), strict=True)
        axes.plot(minutes, accuracy, color=BLUE, marker="o", markersize=3, linewidth=1.4)
    axes.annotate(f"openjepa, {len(records)} seeds", (minutes[-1], accuracy[-1]), xytext=(-4, -16), color=BLUE, ha="right",
                  textcoords="offset points", fontsize=SMALL)  # fmt: skip
    for name, (label, colour) in BASELINES.items():
        axes.axhline(100 * levels[name], color=colour, linestyle="--", linewidth=1)
        axes.annotate(label, (minutes[-1], 100 * levels[name]), xytext=(0, 3), color=colour, ha="right",
                      textcoords="offset points", fontsize=SMALL)  # fmt: skip
    axes.set_xlabel("minutes of pretraining on two CPU cores", color=INK, fontsize=SMALL)
    return figure


if __name__ == "__main__":
    main(*sys.argv[1:])
