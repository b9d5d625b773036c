"""A time budget ends in time on a machine whose speed changes, its schedules end where they should, and it resumes exactly.

No test here measures time: the clock is a number that each step moves on.
"""

import hashlib
import itertools
import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from openjepa.core import schedule
from openjepa.core.errors import BadInput
from openjepa.core.pace import Interval, Pace
from openjepa.runs import metrics
from openjepa.runs import pace as pace_file
from openjepa.runs.pace import Decision
from openjepa.training import loop
from openjepa.training.budget import pacer
from openjepa.training.pretrain import pretrain

BUDGET = 600.0  # seconds
Cost = Callable[[int, float], float]  # (step, share of the budget that is used) -> seconds


@dataclass
class Clock:
    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(pacer, "now", clock)
    return clock


def paced(clock: Clock, folder: Path, cost: Cost, first: int = 1000, pause: float = 0.0) -> tuple[float, Pace]:
    """A run without its training: the share of the budget it took, and its pace. `pause` is that of a checkpoint."""
    began = clock.seconds
    plan = Decision(step=0, total=first, seconds=0.0, seconds_per_step=BUDGET / first)
    guide, every = pacer.Pacer(BUDGET / 60, folder / "pace.jsonl", [plan]), Interval(1, 0.05)
    guide.start(0)
    pace, done = guide.pace, 0
    while done < pace.total_at(done):
        done += 1
        clock.seconds += cost(done, (clock.seconds - began) / BUDGET)
        is_saved = every.is_due(done, pace)
        if (guide.is_due(done) or is_saved) and done < pace.total:
            pace = guide.review(done)
        clock.seconds += pause * is_saved
    return (clock.seconds - began) / BUDGET, pace


def changes(factor: float, at: float) -> Cost:
    """0.6 s for a step, and `factor` times that when the share `at` of the budget is used."""
    return lambda step, used: 0.6 * (factor if used > at else 1.0)


COSTS = {
    "steady": changes(1, 0.5),
    "3 times slower half-way": changes(3, 0.5),
    "3 times faster half-way": changes(1 / 3, 0.5),
    "10 times slower near the end": changes(10, 0.9),
    "10 times slower at the very end": changes(10, 0.97),
    "10 times faster near the end": changes(0.1, 0.9),
    "20 times faster than measured": lambda step, used: 0.03,
    "20 times slower than measured": lambda step, used: 12.0,
    "a neighbour that comes and goes": lambda step, used: 0.6 * (3 if int(20 * used) % 2 else 1),
    "data in bursts": lambda step, used: 4.1 if step % 8 == 0 else 0.1,
    "a pause of a tenth of the budget": lambda step, used: 60.6 if step == 700 else 0.6,
    "a slow first step": lambda step, used: 60.0 if step == 1 else 0.6,
}


@pytest.mark.parametrize("pause", [0.0, 3.0])
@pytest.mark.parametrize("name", COSTS)
def test_a_budget_ends_within_a_tenth_of_its_time(name: str, pause: float, clock: Clock, tmp_path: Path) -> None:
    used, pace = paced(clock, tmp_path, COSTS[name], pause=pause)
    assert used == pytest.approx(1.0, abs=0.1)
    progress = [pace.progress(step) for step in range(pace.total + 1)]
    assert progress[0] == 0.0 and progress[-1] == 1.0
    assert all(earlier < later for earlier, later in itertools.pairwise(progress))
    assert schedule.cosine(progress[-1], 1e-3, 1e-6) == 1e-6


def test_a_steady_machine_spreads_progress_evenly(clock: Clock, tmp_path: Path) -> None:
    _, pace = paced(clock, tmp_path, COSTS["steady"])
    assert all(pace.progress(step) == pytest.approx(step / pace.total, abs=0.01) for step in range(pace.total))


def test_no_jump_of_progress_at_a_decision(clock: Clock, tmp_path: Path) -> None:
    _, pace = paced(clock, tmp_path, COSTS["a neighbour that comes and goes"])
    assert len(pace.stretches) > 10
    for before, after in itertools.pairwise(pace.stretches):
        assert before.at(after.step) == after.progress == after.at(after.step)


def test_a_fixed_length_has_the_progress_it_always_had() -> None:
    pace = Pace.fixed(313)
    assert [pace.progress(step) for step in range(314)] == [step / 313 for step in range(314)]
    every = Interval(7)
    assert [every.is_due(step, pace) for step in range(50)] == [step % 7 == 0 for step in range(50)]
    assert [every.since(step, pace) for step in (0, 1, 7, 9)] == [7, 1, 7, 2]


def test_a_percentage_follows_the_progress_of_a_revised_plan() -> None:
    pace = Pace.fixed(40).revised(10, 3010)  # a quarter in 10 steps, the rest in 3000
    every = Interval(2, share=0.05)
    due = [step for step in range(1, 3010) if every.is_due(step, pace)]
    assert len(due) == 19
    assert [round(pace.progress(step) / 0.05) for step in due] == list(range(1, 20))
    assert every.since(due[10], pace) == due[10] - due[9]


# A real run, with a clock that each step moves on.


@dataclass
class Training:
    """Counts the steps' seconds and hashes the weights after each of them; a step may be the last of its process."""

    clock: Clock
    cost: Callable[[int], float]
    killed_at: int | None = None
    weights: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.step = loop._step

    def __call__(self, parts: loop.Parts, settings: loop.Settings, index: int, batches: Iterator) -> object:
        if index == self.killed_at:
            raise ZeroDivisionError
        view = self.step(parts, settings, index, batches)
        tensors = [tensor.numpy().tobytes() for tensor in parts.method.state_dict().values()]
        self.weights[index] = hashlib.sha256(b"".join(tensors)).hexdigest()
        self.clock.seconds += self.cost(index)
        return view


@pytest.fixture
def training(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Training:
    training = Training(clock, lambda index: 1.0 if index < 40 else 2.5)
    monkeypatch.setattr(loop, "_step", training)
    return training


SETTINGS = {
    "data": {"source": "scenes:16", "image_size": 32, "workers": 0},
    "model": {"name": "vit-nano/8"},
    "train": {"batch_size": 4, "minutes": 1.5, "checkpoint_every": "20%", "keep": 9},
    "monitors": {"loss": {"every": 1}, "collapse": False, "prediction": False, "gradients": False},
}


def test_a_run_that_gets_slower_ends_in_time_with_its_last_rates(
    training: Training, clock: Clock, tmp_path: Path
) -> None:
    result = pretrain(SETTINGS, tmp_path / "run")
    assert result.is_finished and clock.seconds - 1000 == pytest.approx(90, rel=0.1)
    decisions = pace_file.read(result.folder / "pace.jsonl")
    assert decisions[-1].total == result.steps < decisions[0].total
    rows = metrics.read(result.folder / "metrics.jsonl")
    assert rows[-1]["step"] == result.steps
    assert rows[-1]["train/lr"] == 1e-6 and rows[-1]["train/weight_decay"] == 0.4
    rates = [row["train/lr"] for row in rows]
    assert rates == sorted(rates[: rates.index(max(rates))]) + sorted(rates[rates.index(max(rates)) :], reverse=True)
    saved = sorted(int(path.name[5:]) for path in (result.folder / "checkpoints").iterdir())
    progress = pace_file.pace(decisions).progress
    assert [math.floor(progress(step) / 0.2 + 1e-9) for step in saved] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_budget_resumes_with_the_decisions_it_made(
    seed: int, training: Training, clock: Clock, tmp_path: Path
) -> None:
    pretrain(SETTINGS, tmp_path / "whole")
    whole, training.weights = training.weights, {}
    training.killed_at = random.Random(seed).randrange(30, 50)
    run = tmp_path / "run"
    with pytest.raises(ZeroDivisionError):
        pretrain(SETTINGS, run)
    training.killed_at, training.weights = None, {}
    before = pace_file.read(run / "pace.jsonl")
    with (run / "pace.jsonl").open("a") as file:
        file.write('{"step": 49, "tot')  # the kill cut a line
    clock.seconds += 5000  # nobody trained
    training.cost = lambda index: 1.5  # and the machine is another one
    result = pretrain(None, run, resumes=True)
    after = pace_file.read(run / "pace.jsonl")
    assert result.is_finished and after[: len(before)] == before and len(after) > len(before)
    replayed = [index for index in training.weights if index <= before[-1].step]
    assert replayed and all(training.weights[index] == whole[index] for index in replayed)
    assert after[-1].seconds <= 90 and result.steps == after[-1].total
    assert 80 <= after[-1].seconds + (result.steps - after[-1].step) * 1.5 <= 99


def test_the_length_of_a_resumed_budget_cannot_change(training: Training, tmp_path: Path) -> None:
    training.killed_at = 30
    with pytest.raises(ZeroDivisionError):
        pretrain(SETTINGS, tmp_path / "run")
    with pytest.raises(BadInput, match=r"train.minutes: 1.5 in the run, 3.0 now"):
        pretrain(SETTINGS, tmp_path / "run", settings={"train.minutes": 3}, resumes=True)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "missing or damaged"),
        (["{}"], "pace.jsonl.step"),
        (["3 9"], "missing or damaged"),
        (["0 90"], "has lost lines"),
        (["0 90", "20 80", "10 85"], "missing or damaged"),
    ],
)
def test_a_damaged_pace_file_is_refused(lines: list[str], message: str, training: Training, tmp_path: Path) -> None:
    training.killed_at = 30
    with pytest.raises(ZeroDivisionError):
        pretrain(SETTINGS, tmp_path / "run")
    rows = [line if line == "{}" else _line(*map(int, line.split())) for line in lines]
    (tmp_path / "run/pace.jsonl").write_text("".join(f"{row}\n" for row in rows))
    with pytest.raises(BadInput, match=message):
        pretrain(None, tmp_path / "run", resumes=True)


def _line(step: int, total: int) -> str:
    return json.dumps({"step": step, "total": total, "seconds": 1.0 * step, "seconds_per_step": 1.0})
