"""The optimiser and its rates: AdamW as in I-JEPA, or Muon; warm-up and cosine for the rate, a rising cosine for the decay."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from openjepa.core import schedule
from openjepa.core.config import OptimConfig
from openjepa.training import muon


@dataclass(frozen=True)
class Rates:
    """Learning rate and weight decay: functions of progress, with no state to save."""

    lr: float
    start_lr: float
    final_lr: float
    warmup: float  # share of progress
    weight_decay: tuple[float, float]

    def at(self, progress: float) -> tuple[float, float]:
        """`progress` after the step: the published code advances its schedulers before the first update."""
        lr = schedule.warmup_cosine(
            progress, warmup=self.warmup, start=self.start_lr, peak=self.lr, final=self.final_lr
        )
        return lr, schedule.cosine(progress, *self.weight_decay)


def build(config: OptimConfig, method: nn.Module, precision: Literal["float32", "bfloat16"]) -> torch.optim.Optimizer:
    """AdamW, or Muon for the matrices inside transformer blocks; weight decay for all but one-dimensional parameters."""
    if config.name == "adamw":
        return torch.optim.AdamW(_groups(method), betas=config.betas, fused=True)
    matrices = muon.matrix_groups(method)
    taken = {id(weight) for group in matrices for weight in group["params"]}
    others = [{**group, "matrices": 0} for group in _groups(method, taken)]
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    return muon.Muon([*others, *matrices], betas=config.betas, precision=dtype)


def _groups(method: nn.Module, taken: Collection[int] = ()) -> list[dict[str, Any]]:
    """Two groups: with weight decay, and without (one-dimensional parameters: biases and norms)."""
    trained = [parameter for parameter in method.parameters() if parameter.requires_grad and id(parameter) not in taken]
    decayed = [parameter for parameter in trained if parameter.ndim > 1]
    free = [parameter for parameter in trained if parameter.ndim <= 1]
    return [{"params": decayed, "is_decayed": True}, {"params": free, "is_decayed": False, "weight_decay": 0.0}]


def set_rates(optimizer: torch.optim.Optimizer, lr: float, weight_decay: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr
        if group["is_decayed"]:
            group["weight_decay"] = weight_decay
