"""The watch on real but tiny runs: it flags those made to collapse in time, and never those that learn.

All with the default monitors: a reading every 2 % of the run. Longer runs showed that the healthy recipes learn, see
docs/watch.md; here they do their first steps, in which every learning run looks most like a collapse.
"""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import openjepa
from openjepa.core.contracts import methods
from openjepa.core.types import Masks
from openjepa.methods.ijepa import IJEPA
from openjepa.nn.patches import pick
from openjepa.runs import metrics
from openjepa.training import recipe, verdict

pytestmark = pytest.mark.slow

STEPS = 100
FLAGGED_BY = 40  # steps of STEPS

Settings = dict[str, Any]


def settings(*, model: Settings, method: Settings, lr: float, clip: float | None = None) -> Settings:
    return {
        "data": {"source": "scenes:256", "image_size": 32, "workers": 0},
        "model": {"patch_init": 0.15, **model},
        "method": method,
        "optim": {"lr": lr, "clip": clip},
        "train": {"steps": STEPS, "batch_size": 32, "checkpoint_every": "100%"},
    }


NANO, MICRO = {"name": "vit-nano/4"}, {"name": "vit-micro/8"}
CIFAR = recipe.read("cifar10_20min")
SMALL_DATA = {"target_centering": "position", "momentum": [0.98, 0.9995]}  # what decision 0002 is about


class Siamese(IJEPA):
    """Without the asymmetry: one encoder, whose targets are its own tokens, with their gradient."""

    @property
    def encoder(self) -> Any:
        return self.context_encoder

    def targets(self, images: Tensor, masks: Masks) -> Tensor:
        tokens = self.context_encoder(images)
        return pick(nn.functional.layer_norm(tokens, tokens.shape[-1:]), masks.targets)


COLLAPSING = {
    "no stop-gradient": settings(model=NANO, method={"name": "siamese"}, lr=1e-3),
    "no momentum": settings(model=NANO, method={**SMALL_DATA, "momentum": [0, 0]}, lr=2e-3),
    "absurd learning rate": settings(model=NANO, method={}, lr=1.0, clip=1.0),
}
HEALTHY = {
    "demo": {
        **recipe.read("scenes"),
        "data": {"source": "scenes:256", "image_size": 64, "workers": 0},
        "train": {"steps": STEPS, "batch_size": 32, "checkpoint_every": "100%"},
        "monitors": {},
    },
    "CIFAR-10": settings(model=MICRO, method=CIFAR["method"], lr=CIFAR["optim"]["lr"]),
    "the paper's mathematics": settings(model=MICRO, method={}, lr=1e-3),
}


@pytest.fixture(scope="module", autouse=True)
def quiet_surroundings() -> Iterator[None]:
    """One thread, because tensors are tiny; and a method of ours for as long as this file runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    methods.register("siamese")(Siamese)
    yield
    del methods._parts["siamese"]
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", COLLAPSING)
def test_a_collapsing_run_is_flagged_in_time_and_stopped_cleanly(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = openjepa.pretrain({**COLLAPSING[name], "watch": "stop"}, tmp_path / "run")
    messages = capsys.readouterr().err
    assert not result.is_finished and result.steps <= FLAGGED_BY
    assert verdict.judge(metrics.read(result.folder / "metrics.jsonl")).is_hopeless
    assert "optim.lr" in messages and "--set watch=warn" in messages
    assert json.loads((result.folder / "provenance.json").read_text())["status"] == "stopped"


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_is_never_flagged(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = openjepa.pretrain({**HEALTHY[name], "watch": "stop"}, tmp_path / "run")
    assert result.is_finished
    verdicts = verdict.changes(metrics.read(result.folder / "metrics.jsonl"))
    assert not any(each.is_bad for _, each in verdicts), verdicts
    assert "watch" not in capsys.readouterr().err


def printed_kinds(console: str) -> list[str]:
    return re.findall(r"watch, step \d+: ([a-z ]+):", console)


def test_a_stopped_run_resumes_with_watch_warn_bit_for_bit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = {**COLLAPSING["absurd learning rate"], "train": {"steps": 20, "batch_size": 32}}
    whole = openjepa.pretrain({**short, "watch": "off"}, tmp_path / "whole")
    assert "watch" not in capsys.readouterr().err
    stopped = openjepa.pretrain({**short, "watch": "stop"}, tmp_path / "stopped")
    assert 0 < stopped.steps < 20
    kinds = printed_kinds(capsys.readouterr().err)
    assert len(kinds) == 1
    resumed = openjepa.pretrain({**short, "watch": "warn"}, tmp_path / "stopped", resumes=True)
    assert resumed.is_finished
    kinds += printed_kinds(capsys.readouterr().err)
    assert all(kind != before for before, kind in pairwise(kinds)), f"a known verdict is not printed again: {kinds}"
    ours, theirs = (load_file(run.folder / "weights.safetensors") for run in (whole, resumed))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
