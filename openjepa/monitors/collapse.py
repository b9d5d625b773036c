"""Is it learning something about images? Rank and spread of the targets, and how much of them is mere position.

A falling loss says nothing when the target moves with the learner; these numbers do. Formulas: FACTS 7.3.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from openjepa.core.config import DurationField
from openjepa.core.contracts import View, monitors
from openjepa.core.duration import Duration


@monitors.register("collapse")
@dataclass(frozen=True, kw_only=True)
class Collapse:
    every: DurationField = Duration(2, "percent")

    def __call__(self, view: View) -> Iterable[tuple[str, float]]:
        targets, predictions = view.output.tensors.get("targets"), view.output.tensors.get("predictions")
        if targets is None or predictions is None:
            return
        pooled = targets.float().flatten(1, 2).mean(dim=1)  # [B, D]
        yield "collapse/rankme", rankme(pooled)
        yield "collapse/feature_std", relative_std(pooled)
        yield "collapse/mean_cosine", mean_cosine(pooled)
        yield "collapse/prediction_std", predictions.float().std(dim=0).mean().item()


def rankme(features: Tensor) -> float:
    """[S, D] -> the number of directions in use, 1 … min(S, D): exp of the entropy of the singular values (Garrido et al. 2023)."""
    singular = torch.linalg.svdvals(features.float())
    share = singular / singular.sum().clamp(min=1e-12) + 1e-7
    return torch.exp(-(share * share.log()).sum()).item()


def relative_std(features: Tensor) -> float:
    """[S, D] -> mean over channels of the spread over images, after scaling every image to length √D; 0 is collapse."""
    unit = torch.nn.functional.normalize(features.float(), dim=1) * features.shape[1] ** 0.5
    return unit.std(dim=0).mean().item()


def mean_cosine(features: Tensor) -> float:
    """[S, D] -> the average cosine of two different images; 1 is collapse."""
    unit = torch.nn.functional.normalize(features.float(), dim=1)
    total = unit.sum(dim=0)
    count = len(unit)
    return ((total @ total - count) / (count * (count - 1))).item()
