"""What makes training fast must not change what it computes. No test here measures time."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from openjepa.benchmarks import scaling as bench_scaling
from openjepa.benchmarks import step
from openjepa.core import config as configs
from openjepa.machine import allocator
from openjepa.report.figures import scaling
from openjepa.training import setup
from openjepa.training.budget import calibrate

pytestmark = pytest.mark.slow

COUNT_FAULTS = """
import resource, torch
from openjepa.machine import allocator
is_tuned = allocator.tune("{setting}")
for _ in range(20):  # aligned blocks leave gaps at first, which later ones fill
    torch.ones(2**24)  # 64 MiB; up to 32 MiB glibc learns by itself not to return
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    torch.ones(2**24)
print(is_tuned, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(setting: str) -> tuple[bool, int]:
    """Page faults of allocating 64 MiB twenty times, after a warm-up."""
    command = [sys.executable, "-c", COUNT_FAULTS.format(setting=setting)]
    is_tuned, number = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return is_tuned == "True", int(number)


@pytest.mark.skipif(not allocator.is_glibc(), reason="only glibc can be tuned")
def test_the_tuned_allocator_reuses_memory_that_the_system_one_returns() -> None:
    (is_tuned, tuned), (is_system_tuned, plain) = faults("tuned"), faults("system")
    assert is_tuned and not is_system_tuned
    assert tuned < plain / 4, (tuned, plain)


def test_one_slow_step_does_not_shorten_a_budget() -> None:
    clock = calibrate._Clock(0.0, 1e9, torch.device("cpu"))
    clock.times = [0, 0, 0, *(1.0 * second for second in range(10)), 100.0, 101.0]
    assert clock.seconds_per_step == 1.0


def test_a_busy_machine_is_named_before_a_budget_is_spent_on_it() -> None:
    assert calibrate.busy_warning(2.4, num_cores=2) == ""
    assert "load 5.2 on 2 cores" in calibrate.busy_warning(5.2, num_cores=2)


def test_each_fixed_shape_is_measured_in_its_own_process(monkeypatch) -> None:
    monkeypatch.setattr(step, "SHAPES", (("vit-nano/8", 32, 4, "shared"),))
    (row,) = step.shapes(["train.allocator=system"], num_steps=1)
    assert row["predictor"] == "32×2 shared" and row["allocator"] == "system"
    assert row["GFLOP per step"] > 0 and row["memory MiB"] > 0


def test_a_shape_that_cannot_be_built_says_why(monkeypatch) -> None:
    monkeypatch.setattr(step, "SHAPES", (("vit-nano/7", 32, 4, "joint"),))
    with pytest.raises(step.OpenJepaError, match="not a multiple of patch size 7"):
        step.shapes([], num_steps=1)


def test_a_timed_update_moves_the_weights_and_gradients_are_of_one_step() -> None:
    words = ["model.name=vit-nano/8", "data.image_size=32", "train.batch_size=2"]
    bench = step.StepBench(setup.resolve(configs.load({}, words)), torch.device("cpu"))
    bench.gradients()
    first = [p.grad.clone() for p in bench.method.parameters() if p.grad is not None]
    bench.gradients()
    second = [p.grad for p in bench.method.parameters() if p.grad is not None]
    assert all(torch.equal(*pair) for pair in zip(first, second, strict=True)), "not added up"
    for _ in range(3):
        bench.update()
    assert {int(state["step"]) for state in bench.optimizer.state.values()} == {3}


def test_exponents_say_how_fast_a_cost_grows() -> None:
    points = [
        bench_scaling.Point("batch", size, {"linear": 3.0 * size, "square": 0.1 * size**2, "none": 7.0})
        for size in (16, 32, 64)
    ]
    expected = {"grows with": "batch", "from": 16, "to": 64, "linear": 1.0, "square": 2.0, "none": 0.0}
    assert bench_scaling.exponents(points) == [expected]


def test_scaling_is_measured_and_plotted(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench_scaling, "SWEEPS", {"batch": [("nano", 8, 2), ("nano", 8, 4)]})
    monkeypatch.setattr(bench_scaling, "REPEATS", 1)
    points = bench_scaling.measure()
    assert [point.value for point in points] == [2, 4]
    assert all(milliseconds > 0 for point in points for milliseconds in point.milliseconds.values())
    figure = scaling.figure(bench_scaling.curves(points))
    assert len(figure.axes) == 1 and len(figure.axes[0].lines) == 2 * len(points[0].milliseconds)
