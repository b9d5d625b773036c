"""How long steps take and how long they wait for data: a monitor sees all steps since its last reading, not only one."""

from types import SimpleNamespace

import pytest
import torch

from openjepa.core.contracts import View
from openjepa.core.pace import Interval, Pace
from openjepa.core.types import LossOutput, Step
from openjepa.training import loop
from openjepa.training.monitors.throughput import Throughput
from openjepa.training.step_timer import StepTimer

TOTAL = 12


def test_means_are_over_the_last_steps_or_all_if_there_were_fewer() -> None:
    timer = StepTimer(memory=3)
    for seconds in (100.0, 1.0, 2.0, 3.0):
        timer.add(seconds, seconds / 2)
    assert timer.over(2) == (2.5, 1.25) and timer.over(50) == (2.0, 1.0)


def stalling_step(parts, settings, index: int, batches) -> View:
    """Every fourth batch makes the step wait, never one at which the monitor reads."""
    waiting = 3.0 if index % 4 == 1 else 0.0
    return View(
        step=Step(index=index, total=TOTAL, seed=0, batch_size=8, rows=slice(0, 8)),
        method=None,
        output=LossOutput(torch.zeros(())),
        gradient_norm=0.0,
        lr=0.0,
        weight_decay=0.0,
        step_seconds=1.0 + waiting,
        wait_seconds=waiting,
    )


def test_a_stall_between_two_readings_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: dict[int, dict[str, float]] = {}
    monkeypatch.setattr(loop, "_step", stalling_step)
    loop.run(
        loop.Parts(
            method=None,
            trained=torch.nn.Identity(),
            optimizer=None,
            rates=None,
            loader=SimpleNamespace(batches=lambda start: iter(())),
            monitors=[(Interval(4), Throughput())],
        ),
        loop.Settings(
            pace=Pace.fixed(TOTAL),
            seed=0,
            batch_size=8,
            accumulate=1,
            clip=None,
            precision="float32",
            device=torch.device("cpu"),
            checkpoint_every=Interval(100),
            check_every=100,
        ),
        SimpleNamespace(
            record=lambda number, values: recorded.update({number: values}),
            save_checkpoint=lambda number: None,
            should_stop=lambda: False,
        ),
    )
    assert list(recorded) == [1, 5, 9, 12]  # steps 0, 4, 8 and the last
    for number in (5, 9, 12):
        waited, seconds = 3.0, 4.0 + 3.0 if number != 12 else 3.0 + 3.0
        assert recorded[number]["data/wait_share"] == pytest.approx(waited / seconds)
    assert recorded[5]["throughput/images_per_second"] == pytest.approx(8 * 4 / 7)
