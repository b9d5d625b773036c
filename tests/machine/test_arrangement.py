"""Which arrangements of processes and threads are possible, and which one a run gets without a measurement."""

import itertools
from pathlib import Path

import pytest
import torch

from openjepa.core import config as configs
from openjepa.core.errors import BadInput
from openjepa.machine import arrangement, launch
from openjepa.machine.arrangement import Arrangement
from openjepa.training.processes import arrange

GRID = list(itertools.product((1, 2, 3, 4, 6, 8, 12, 48, 64, 256), (1, 2, 7, 30, 32, 64, 128, 2048)))


@pytest.mark.parametrize(("cores", "batch_size"), GRID)
def test_every_candidate_shares_the_batch_and_fits_the_cores(cores: int, batch_size: int) -> None:
    candidates = arrangement.candidates(cores, batch_size)
    assert candidates[0] == Arrangement(1, cores)
    assert len(candidates) <= 8 and len(set(candidates)) == len(candidates)
    for each in [*candidates, arrangement.rule(cores, batch_size)]:
        assert each in candidates
        assert batch_size % each.processes == 0 and each.processes * each.threads <= cores
        assert each.processes == 1 or batch_size // each.processes >= 4, "no process has less than four images"


def test_one_thread_for_each_process_is_a_candidate_wherever_the_batch_allows_it() -> None:
    assert Arrangement(2, 1) in arrangement.candidates(2, 32)
    assert Arrangement(64, 1) in arrangement.candidates(64, 2048)
    assert arrangement.candidates(2, 7) == [Arrangement(1, 2)]


def test_the_rule_prefers_processes_to_threads_until_there_are_many() -> None:
    assert arrangement.rule(2, 32) == Arrangement(2, 1)
    assert arrangement.rule(8, 128) == Arrangement(8, 1)
    assert arrangement.rule(64, 2048) == Arrangement(8, 8), "each process holds its own weights"
    assert arrangement.rule(8, 16) == Arrangement(2, 4), "eight images for each"
    assert arrangement.rule(2, 7) == Arrangement(1, 2), "seven images cannot be shared"


def test_each_gpu_gets_a_process_if_the_batch_can_be_shared() -> None:
    assert arrangement.on_gpus(8, 64, 2048) == Arrangement(8, 8)
    assert arrangement.on_gpus(3, 8, 128) == Arrangement(2, 4)
    assert arrangement.on_gpus(1, 8, 128) == Arrangement(1, 8)


def test_cores_respect_the_users_threads_and_the_containers_quota(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert arrangement.usable_cores() == 1
    (tmp_path / "cpu.max").write_text("250000 100000\n")
    assert arrangement._container_limit(tmp_path) == 2
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert arrangement._container_limit(tmp_path) is None
    (tmp_path / "old" / "cpu").mkdir(parents=True)
    for name, number in (("quota", "50000"), ("period", "100000")):
        (tmp_path / "old" / "cpu" / f"cpu.cfs_{name}_us").write_text(number)
    assert arrangement._container_limit(tmp_path / "old") == 1, "half a core is one"


def chosen(monkeypatch, *words: str, cores: int = 4, gpus: int = 0) -> Arrangement:
    monkeypatch.setattr(arrangement, "usable_cores", lambda: cores)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(arrange, "_fastest", lambda config, candidates: "measured")
    monkeypatch.setattr(arrange, "modules", lambda config: [])
    return arrange.choose(configs.load({}, ["train.batch_size=64", *words]), None)


def test_long_runs_measure_short_ones_follow_the_rule_and_tiny_ones_stay_here(monkeypatch) -> None:
    assert chosen(monkeypatch, "train.minutes=30") == "measured"
    assert chosen(monkeypatch, "train.minutes=5") == Arrangement(4, 1)
    assert chosen(monkeypatch, "train.minutes=0.5").processes == 1
    assert chosen(monkeypatch, "train.steps=20").processes == 1
    assert chosen(monkeypatch, "train.steps=100000") == "measured"
    assert chosen(monkeypatch, "train.minutes=30", cores=1).processes == 1
    assert chosen(monkeypatch, "train.minutes=30", gpus=1).processes == 1
    assert chosen(monkeypatch, "train.minutes=30", gpus=4) == Arrangement(4, 1)


def test_a_given_number_is_used_or_refused(monkeypatch) -> None:
    assert chosen(monkeypatch, "train.processes=2", "train.steps=1") == Arrangement(2, 2)
    assert chosen(monkeypatch, "train.processes=1", "train.minutes=30").processes == 1
    with pytest.raises(BadInput, match="batch size 64 cannot be shared equally by 3 processes"):
        chosen(monkeypatch, "train.processes=3")
    with pytest.raises(BadInput, match="has 2 GPUs"):
        chosen(monkeypatch, "train.processes=4", gpus=2)


def test_torchrun_decides_alone(monkeypatch) -> None:
    monkeypatch.setenv("RANK", "0")
    assert not launch.is_possible()
    assert chosen(monkeypatch, "train.processes=2").processes == 1
