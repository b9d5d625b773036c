"""The prediction map: how well each hidden patch is predicted, compared with knowing only its position.

skill = 1 - error / error of predicting the mean target of that position: 1 is perfect, 0 knows the position but not the
image, below 0 is worse than that. The error should be the loss that trained the predictor: smooth L1 teaches it something
like a median, whose squared error can be larger than that of the mean (scenes, vit-micro/8, 700 steps, one predictor:
skill +0.11 in smooth L1 and -0.09 squared).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from torch import Tensor

from openjepa.core.contracts import MaskStrategy
from openjepa.core.types import Grid, Masks
from openjepa.report.figures import panels
from openjepa.report.figures.style import BALANCE, FAINT, INK, SMALL

BATCH = 64
OPACITY = 0.72
Distance = Callable[[Tensor, Tensor], Tensor]  # [..., D] twice -> scalar


@dataclass(frozen=True)
class PredictiveModel:
    """What figures need of a method that predicts hidden patches."""

    grid: Grid
    draw_masks: MaskStrategy
    predict: Callable[[Tensor, Masks], Tensor]  # [B, 3, h, w] -> [B, M, T, D]
    targets: Callable[[Tensor, Masks], Tensor]  # [B, 3, h, w] -> [B, M, T, D]
    distance: Distance  # the loss of the method

    def errors(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """[B, M, T, D] twice -> [B, M, T]: the distance, patch by patch."""
        patches = predictions.flatten(0, 2), targets.flatten(0, 2)  # [B·M·T, D]
        return torch.vmap(self.distance)(*patches).unflatten(0, predictions.shape[:3])


@dataclass(frozen=True)
class Skill:
    by_patch: Tensor  # [B, N]; nan where a patch never was a target
    overall: float  # of all errors together


@torch.no_grad()
def position_means(model: PredictiveModel, images: Tensor, *, num_draws: int, generator: torch.Generator) -> Tensor:
    """[S, 3, h, w] -> [N, D]: the mean target of each position over images; nan for a position that never was a target."""
    total: Tensor | None = None
    count = torch.zeros(model.grid.size, 1)
    for batch in images.split(BATCH) * num_draws:
        masks = model.draw_masks(len(batch), model.grid, generator)
        targets = model.targets(batch, masks.to(images.device)).cpu()  # [B, M, T, D]
        index = masks.targets.flatten()
        total = torch.zeros(model.grid.size, targets.shape[-1]) if total is None else total
        total.index_add_(0, index, targets.flatten(0, 2))
        count.index_add_(0, index, torch.ones(len(index), 1))
    assert total is not None, "no images"
    return total / count


@torch.no_grad()
def prediction_skill(
    model: PredictiveModel, images: Tensor, means: Tensor, *, num_draws: int, generator: torch.Generator
) -> Skill:
    """[B, 3, h, w], means [N, D]: enough draws make (nearly) every patch a target several times."""
    error, baseline = torch.zeros(2, len(images), model.grid.size).unbind()
    for _ in range(num_draws):
        masks = model.draw_masks(len(images), model.grid, generator)
        on_device = masks.to(images.device)
        targets = model.targets(images, on_device).cpu()  # [B, M, T, D]
        predictions = model.predict(images, on_device).cpu()
        index = masks.targets.flatten(1)  # [B, M·T]
        error.scatter_add_(1, index, model.errors(predictions, targets).flatten(1))
        baseline.scatter_add_(1, index, model.errors(means[masks.targets], targets).flatten(1))
    is_known = baseline.isfinite()
    overall = 1 - error[is_known].sum() / baseline[is_known].sum()
    return Skill(1 - error / baseline, overall.item())


def figure(images: Tensor, skill: Skill, grid: Grid) -> Figure:
    """[B, 3, h, w]: the images; below, the skill of each patch, blue where its content was predicted."""
    labels, aspect = ("image", "prediction\nskill"), images.shape[2] / images.shape[3]
    sheet, axes = panels.sheet(2, len(images), aspect=aspect, labels=labels, bottom=0.5)
    for index, image in enumerate(panels.rgb(images)):
        panels.show(axes[0][index], image)
        panels.show_grey(axes[1][index], image)
        values = skill.by_patch[index].unflatten(0, grid)
        alpha = torch.where(values.isfinite(), OPACITY, 0.0)  # plain grey where a patch never was a target
        panels.lay_over(axes[1][index], panels.coloured(values.nan_to_num(0), _scale(), alpha), image)
    _add_scale(sheet)
    return sheet


def _scale() -> ScalarMappable:
    return ScalarMappable(Normalize(-1, 1), BALANCE)  # values beyond take the colours of the ends


def _add_scale(sheet: Figure) -> None:
    width, height = sheet.get_size_inches()
    bar_axes = sheet.add_axes((panels.LABELS / width, 0.3 / height, 3.2 / width, 0.1 / height))
    bar = sheet.colorbar(_scale(), cax=bar_axes, orientation="horizontal", ticks=[-1, 0, 1])
    bar.ax.set_xticklabels(["−1 or worse", "0: knows the position", "1: perfect"])
    bar.ax.tick_params(colors=FAINT, labelcolor=INK, labelsize=SMALL, length=2)
    bar.outline.set_visible(False)
