"""The race counts every product of matrices, refuses what its rules forbid, and leaves a record."""

import json
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from openjepa.core import config as configs
from openjepa.core.errors import BadInput
from openjepa.core.types import Batch, Step
from openjepa.methods import build
from openjepa.planning import cost
from openjepa.studies import speedrun
from openjepa.training import optim, setup

SMALL = {"model.name": "vit-nano/8", "data.image_size": 32, "train.batch_size": 8, "optim.name": "muon"}


def test_the_cost_of_a_step_is_what_torch_counts_in_a_real_one() -> None:
    config = setup.resolve(configs.load({}, words=SMALL))
    method = build.method(config)
    optimizer = optim.build(config.optim, method, "float32")
    optim.set_rates(optimizer, 1e-3, 0.1)
    batch = Batch(torch.randn(8, 3, 32, 32), torch.arange(8))
    passes, updates = [], []
    for index in range(40):  # the size of target blocks changes from step to step
        step = Step(index=index, total=100, seed=0, batch_size=8, rows=slice(0, 8))
        passes.append(cost.flops(method, batch, step))
        with FlopCounterMode(display=False) as counter:
            optimizer.step()
        updates.append(counter.get_total_flops())
    expected = sum(passes) / len(passes) + updates[0]
    assert speedrun.flops_per_step(config) == pytest.approx(expected, rel=0.02)
    assert speedrun.steps_within(10.5 * speedrun.flops_per_step(config), config) == 10


def test_other_images_are_refused() -> None:
    with pytest.raises(BadInput, match="the race is on the 50,000 training images of CIFAR-10"):
        speedrun.check_data("scenes:64")


def test_a_probe_that_watches_is_refused_because_it_sees_labels() -> None:
    with pytest.raises(BadInput, match="looks at labels"):
        speedrun.check_rules(configs.load({"monitors": {"probe": {"task": "scenes-count"}}}))


def test_a_budget_below_one_step_is_refused() -> None:
    with pytest.raises(BadInput, match="less than one step"):
        speedrun.steps_within(10.0, configs.load({}, words=SMALL))


def test_a_row_of_the_table_has_both_scores_of_every_seed() -> None:
    results = tuple(
        speedrun.Result(seed=seed, steps=9, seconds=60.4 + seed, knn=0.5 + seed / 10, logistic=0.7) for seed in (0, 1)
    )
    record = speedrun.Record(
        day="2026-11-18", change="Muon", track=0.2, results=results, commit="0123456789", config="speedrun"
    )
    assert record.row() == "| 2026-11-18 | Muon | 50.0% · 60.0% | 70.0% · 70.0% | 60 · 61 | 01234567 | `speedrun` |"


@pytest.mark.slow
def test_a_small_race_ends_with_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (60, 32, 32, 3), dtype=np.uint8), np.arange(60) % 3
    np.savez(tmp_path / "few.npz", x_train=images, y_train=labels, x_test=images[:30], y_test=labels[:30])
    monkeypatch.setattr(speedrun, "NUM_IMAGES", 60)
    monkeypatch.setattr(speedrun, "NUM_CLASSES", 3)
    (tmp_path / "mine.yaml").write_text("model: {name: vit-nano/8}\ndata: {image_size: 32}\ntrain: {batch_size: 8}\n")
    words = {"track": 2e-6, "seeds": (0, 1), "folder": tmp_path / "race", "change": "a test", "given": {}}
    record = speedrun.race(tmp_path / "mine.yaml", f"npz:{tmp_path / 'few.npz'}", **words)
    assert [result.seed for result in record.results] == [0, 1] and record.results[0].steps > 1
    assert all(0 <= result.knn <= 1 and 0 <= result.logistic <= 1 for result in record.results)
    assert json.loads((tmp_path / "race" / speedrun.RECORD).read_text())["change"] == "a test"
    again = speedrun.race(tmp_path / "mine.yaml", f"npz:{tmp_path / 'few.npz'}", **words)
    assert [result.knn for result in again.results] == [result.knn for result in record.results]
