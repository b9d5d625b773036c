"""How the cost of each part of a training step grows with patches, width and batch.

An exponent of 1 is linear. With the batch nothing may grow faster than linearly; with the number of patches only attention
may grow with the square. Exponents compare the last point of a sweep with the first.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from openjepa.benchmarks.step import StepBench
from openjepa.benchmarks.timer import seconds_of
from openjepa.core import config as configs
from openjepa.machine import allocator, device
from openjepa.models.sizes import SIZES
from openjepa.training import setup

REPEATS = 5
PATCH_SIZE = 4
SWEEPS = {  # size, patches a side, batch
    "patches": [("micro", side, 64) for side in (8, 12, 16, 24)],
    "width": [(size, 8, 16) for size in ("tiny", "small", "base")],  # all of depth 12
    "batch": [("micro", 8, batch_size) for batch_size in (16, 32, 64, 128)],
}


@dataclass(frozen=True)
class Point:
    """One measurement: the quantity that a sweep varies, its value, and the milliseconds of each part."""

    sweep: str
    value: int
    milliseconds: dict[str, float]


def measure() -> list[Point]:
    chosen = device.choose()
    if chosen.type == "cpu":
        allocator.tune("tuned")
    return [_point(sweep, *setting, chosen) for sweep, settings in SWEEPS.items() for setting in settings]


def _point(sweep: str, size: str, side: int, batch_size: int, chosen: torch.device) -> Point:
    words = [f"model.name=vit-{size}/{PATCH_SIZE}", f"data.image_size={PATCH_SIZE * side}"]
    bench = StepBench(setup.resolve(configs.load({}, [*words, f"train.batch_size={batch_size}"])), chosen)
    bench.run(0)
    parts = {name: 1e3 * _median(call) for name, call in _parts(bench).items()}
    value = {"patches": side**2, "width": SIZES[size].dim, "batch": batch_size}[sweep]
    return Point(sweep, value, parts)


def _parts(bench: StepBench) -> dict[str, Callable[[], object]]:
    return {
        "masks": partial(bench.masks, 0),
        "crops": bench.crops,
        "forward and backward": bench.gradients,
        "update": bench.update,
    }


def _median(call: Callable[[], object]) -> float:
    return statistics.median(seconds_of(call) for _ in range(REPEATS))


def exponents(points: list[Point]) -> list[dict[str, Any]]:
    """A row for each sweep: how fast each part grows from the first to the last point."""
    rows = []
    for sweep, its_points in _by_sweep(points).items():
        first, last = its_points[0], its_points[-1]
        growth = math.log(last.value / first.value)
        powers = {
            part: round(math.log(last.milliseconds[part] / first.milliseconds[part]) / growth, 2)
            for part in first.milliseconds
        }
        rows.append({"grows with": sweep, "from": first.value, "to": last.value, **powers})
    return rows


def curves(points: list[Point]) -> dict[str, tuple[list[float], dict[str, list[float]]]]:
    """What report/figures/scaling.py plots: for each sweep its sizes, and the milliseconds of each part."""
    by_sweep = {}
    for sweep, its_points in _by_sweep(points).items():
        parts = {part: [point.milliseconds[part] for point in its_points] for part in its_points[0].milliseconds}
        by_sweep[sweep] = ([float(point.value) for point in its_points], parts)
    return by_sweep


def _by_sweep(points: list[Point]) -> dict[str, list[Point]]:
    sweeps = dict.fromkeys(point.sweep for point in points)
    return {sweep: [point for point in points if point.sweep == sweep] for sweep in sweeps}
