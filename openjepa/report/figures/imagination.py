"""What the predictor imagines: hidden patches filled with the real patches nearest to its predictions.

A decoder without training. The paper trained a diffusion model for this (its figure 6) and never released it; patches
of other images need no training, but can show only what is in those images.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from openjepa.core.types import Grid, Masks
from openjepa.masks.statistics import occupancy
from openjepa.nn.patches import patchify, unpatchify
from openjepa.report.figures import panels
from openjepa.report.figures.masks import hidden
from openjepa.report.figures.nearest_patches import Pool, nearest_patches, on_grid
from openjepa.report.figures.predictions import PredictiveModel
from openjepa.report.figures.style import ORANGE

CENTRE = Grid(3, 3)  # a patch is shown with one patch around it


@dataclass(frozen=True)
class Imagination:
    images: Tensor  # [B, 3, h, w]
    masks: Masks
    grid: Grid
    pool: Pool
    predicted: Tensor  # [B, N, k] patches of the pool nearest to each prediction; -1 where no patch was a target
    true: Tensor  # [B, N, k] the patches nearest to the true target


@torch.no_grad()
def imagine(
    model: PredictiveModel, images: Tensor, pool: Pool, *, generator: torch.Generator, k: int = 6
) -> Imagination:
    """[B, 3, h, w]: one draw of masks, predicted and looked up. No image should be in the pool."""
    masks = model.draw_masks(len(images), model.grid, generator)
    nearest = []
    for tokens_of in (model.predict, model.targets):
        tokens = on_grid(tokens_of(images, masks.to(images.device)).cpu(), masks, model.grid.size)  # [B, N, D]
        nearest.append(nearest_patches(tokens, pool, k))
    return Imagination(images.cpu(), masks, model.grid, pool, *nearest)


def figure(imagined: Imagination) -> Figure:
    """The images, what the predictor saw, what it imagined, and the best that patches of the pool could show."""
    images, grid = imagined.images, imagined.grid
    labels = ("image", "what it sees", "what it\nimagines", "if it were\nright")
    sheet, axes = panels.sheet(4, len(images), aspect=images.shape[2] / images.shape[3], labels=labels)
    context, target = (side.unflatten(1, grid) for side in occupancy(imagined.masks, grid))  # [B, gh, gw]
    collages = [collage(imagined, nearest) for nearest in (imagined.predicted, imagined.true)]
    rows = [panels.rgb(x) for x in (images, images, *collages)]
    for index in range(len(images)):
        panels.show(axes[0][index], rows[0][index])
        panels.show(axes[1][index], hidden(rows[1][index], context[index]))
        for row in (2, 3):
            panels.show(axes[row][index], hidden(rows[row][index], context[index] | target[index]))
            panels.outline(axes[row][index], target[index], rows[row][index], colour=ORANGE, width=1.2)
    return sheet


def collage(imagined: Imagination, nearest: Tensor) -> Tensor:
    """[B, N, k] -> [B, 3, h, w]: the images with each target patch replaced by the nearest one."""
    side = imagined.images.shape[2] // imagined.grid.height
    own = patchify(imagined.images, side)  # [B, N, 3·p·p]
    others = patchify(imagined.pool.images, side).flatten(0, 1)  # [S·N, 3·p·p]
    first = nearest[..., 0]  # [B, N]
    filled = torch.where(first[..., None] >= 0, others[first.clamp(min=0)], own)
    return unpatchify(filled, imagined.grid, side)


def patches_figure(imagined: Imagination, num_images: int = 5) -> Figure:
    """One hidden patch of each image: its position, its content, and the patches nearest to the prediction."""
    images, grid = imagined.images[:num_images], imagined.grid
    chosen = detailed_patches(imagined)[:num_images]
    k = imagined.predicted.shape[2]
    titles = ["hidden patch", "the truth", *(f"imagined {rank + 1}" for rank in range(k))]
    sheet, axes = panels.sheet(len(images), 2 + k, titles=titles, largest=0.95)
    context, _ = occupancy(imagined.masks, grid)
    for row, (image, patch) in enumerate(zip(panels.rgb(images), chosen.tolist(), strict=True)):
        panels.show(axes[row][0], hidden(image, context[row].unflatten(0, grid), opacity=0.25))
        panels.frame(axes[row][0], patch, grid, image)
        axes[row][0].set_anchor("N")  # an image that is not square stays under its title
        nearest = imagined.predicted[row, patch]  # [k]
        windows = [window(images[row], patch, grid)]
        windows += [window(imagined.pool.images[at // grid.size], at % grid.size, grid) for at in nearest.tolist()]
        for panel, view in zip(axes[row][1:], panels.rgb(torch.stack(windows)), strict=True):
            panels.show(panel, view)
            panels.frame(panel, CENTRE.size // 2, CENTRE, view, width=1.0)
    return sheet


def detailed_patches(imagined: Imagination) -> Tensor:
    """-> [B]: the target patch beside the context with the most contrast; far from the context nothing can be known."""
    grid = imagined.grid
    detail = patchify(imagined.images, imagined.images.shape[2] // grid.height).std(dim=2)  # [B, N]
    context, target = occupancy(imagined.masks, grid)  # [B, N]
    around = F.max_pool2d(context.unflatten(1, grid)[:, None].float(), 3, stride=1, padding=1).flatten(1) > 0  # [B, N]
    score = torch.where(around, detail + detail.max(), detail)  # beside the context first
    return score.masked_fill(~target, -1).argmax(dim=1)


def window(image: Tensor, patch: int, grid: Grid) -> Tensor:
    """[3, h, w] -> [3, 3·p, 3·p]: a patch and its surroundings, edges repeated."""
    side = image.shape[1] // grid.height
    padded = F.pad(image[None], (side, side, side, side), mode="replicate")[0]
    top, left = patch // grid.width * side, patch % grid.width * side
    return padded[:, top : top + 3 * side, left : left + 3 * side]
