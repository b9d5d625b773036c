"""How long steps take and how long they wait for data: a monitor sees all steps since its last look, not the one it falls on."""

from types import SimpleNamespace

import pytest
import torch

from openjepa.core.contracts import View
from openjepa.core.types import LossOutput, Step
from openjepa.training import loop
from openjepa.training.monitors.throughput import Throughput
from openjepa.training.step_timer import Pace


def test_means_are_over_the_last_steps_or_as_many_as_there_were() -> None:
    pace = Pace(memory=3)
    for seconds in (100.0, 1.0, 2.0, 3.0):
        pace.add(seconds, seconds / 2)
    assert pace.over(2) == (2.5, 1.25) and pace.over(50) == (2.0, 1.0)


def test_a_stall_between_two_looks_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fourth batch is waited for, and never the one of a step that is looked at."""
    recorded: dict[int, dict[str, float]] = {}

    def step(training, index: int, batches) -> View:
        waiting = 3.0 if index % 4 == 1 else 0.0
        output = LossOutput(torch.zeros(()))
        return View(Step(index, 13, 0, 8, slice(0, 8)), None, output, 0.0, 0.0, 0.0, 1.0 + waiting, waiting)

    monkeypatch.setattr(loop, "_step", step)
    loop.run(
        SimpleNamespace(
            trained=torch.nn.Identity(),
            batches=lambda start: iter(()),
            monitors=[(4, Throughput())],
            record=lambda number, values: recorded.update({number: dict(values)}),
            checkpoint_every=100,
            check_every=100,
            save=lambda number: None,
            should_stop=lambda: False,
            device=torch.device("cpu"),
            total=12,
        )
    )
    assert list(recorded) == [1, 5, 9, 12]  # steps 0, 4, 8 and the last
    for number in (5, 9, 12):
        waited, seconds = 3.0, 4.0 + 3.0 if number != 12 else 3.0 + 3.0
        assert recorded[number]["data/wait_share"] == pytest.approx(waited / seconds)
    assert recorded[5]["throughput/images_per_second"] == pytest.approx(8 * 4 / 7)
