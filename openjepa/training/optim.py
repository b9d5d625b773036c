"""AdamW as in I-JEPA: no decay on biases and norms, warm-up and cosine for the rate, a rising cosine for the decay."""

from dataclasses import dataclass

import torch
from torch import nn

from openjepa.core import schedule


@dataclass(frozen=True)
class Rates:
    """Learning rate and weight decay of a step: functions of progress, with no state to save."""

    lr: float
    start_lr: float
    final_lr: float
    warmup_steps: int
    weight_decay: tuple[float, float]
    total: int

    def at(self, index: int) -> tuple[float, float]:
        """Step 0 is k = 1 of the published code, which advances its schedulers before the first update."""
        progress = min((index + 1) / self.total, 1.0)
        warmup = min(self.warmup_steps / self.total, 1.0)
        lr = schedule.warmup_cosine(progress, warmup=warmup, start=self.start_lr, peak=self.lr, final=self.final_lr)
        return lr, schedule.cosine(progress, *self.weight_decay)


def adamw(method: nn.Module, *, betas: tuple[float, float]) -> torch.optim.AdamW:
    """Two groups: with weight decay, and without (one-dimensional parameters: biases and norms)."""
    trained = [parameter for parameter in method.parameters() if parameter.requires_grad]
    decayed = [parameter for parameter in trained if parameter.ndim > 1]
    free = [parameter for parameter in trained if parameter.ndim <= 1]
    groups = [{"params": decayed, "is_decayed": True}, {"params": free, "is_decayed": False, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=betas, fused=True)


def set_rates(optimizer: torch.optim.Optimizer, lr: float, weight_decay: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr
        if group["is_decayed"]:
            group["weight_decay"] = weight_decay
