"""What a mask strategy shows and hides: over images, and as chances by row and column."""

import torch
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from openjepa.core.types import Grid, Masks
from openjepa.masks.statistics import Coverage, occupancy
from openjepa.report.figures import panels
from openjepa.report.figures.style import BLUE, INK, ORANGE, SMALL, TINTS, chart

DIMMED = 0.16  # opacity of what is neither context nor target
CHARTS = 2.5  # inches of height for the chances
TINT = 0.45  # share of a target block's colour


def figure(images: Tensor, masks: Masks, grid: Grid) -> Figure:
    """[B, 3, h, w]: the images; below, the context as it is, each target block in its colour, the rest dimmed."""
    return _examples(images, masks, grid, bottom=0.0)


def coverage_figure(coverage: Coverage) -> Figure:
    """How likely a patch of each row, and of each column, is context or target."""
    figure = Figure(figsize=(panels.WIDTH, CHARTS))
    _add_charts(figure, coverage)
    return figure


def inspector(images: Tensor, masks: Masks, grid: Grid, coverage: Coverage) -> Figure:
    """Both in one: examples at the top, chances at the bottom."""
    figure = _examples(images, masks, grid, bottom=CHARTS + 0.1)
    _add_charts(figure, coverage)
    return figure


def _examples(images: Tensor, masks: Masks, grid: Grid, *, bottom: float) -> Figure:
    labels, aspect = ("image", "context and\ntargets"), images.shape[2] / images.shape[3]
    sheet, axes = panels.sheet(2, len(images), aspect=aspect, labels=labels, bottom=bottom)
    context, _ = occupancy(masks, grid)  # [B, N]
    blocks = block_maps(masks, grid)  # [B, M, gh, gw]
    for index, image in enumerate(panels.rgb(images)):
        panels.show(axes[0][index], image)
        used = context[index].unflatten(0, grid) | blocks[index].any(dim=0)
        panels.show(axes[1][index], hidden(tinted(image, blocks[index]), used, opacity=DIMMED))
        for block, tint in zip(blocks[index], _tints(blocks.shape[1]), strict=True):
            panels.outline(axes[1][index], block, image, colour=tint)
    return sheet


def block_maps(masks: Masks, grid: Grid) -> Tensor:
    """-> [B, M, gh, gw] bool: the patches of each target block."""
    maps = torch.zeros(*masks.targets.shape[:2], grid.size, dtype=torch.bool)
    return maps.scatter_(2, masks.targets, True).unflatten(2, grid)


def tinted(image: Tensor, blocks: Tensor) -> Tensor:
    """[h, w, 3], [M, gh, gw] -> [h, w, 3]: every block under its colour."""
    for block, tint in zip(blocks, _tints(len(blocks)), strict=True):
        mixed = image * (1 - TINT) + torch.tensor(to_rgb(tint)) * TINT
        image = torch.where(_to_pixels(block, image)[..., None], mixed, image)
    return image


def hidden(image: Tensor, visible: Tensor, *, opacity: float = 0.0) -> Tensor:
    """[h, w, 3], [gh, gw] bool -> [h, w, 4]: patches that are not visible let the page show through."""
    alpha = torch.where(_to_pixels(visible, image), 1.0, opacity)
    return torch.cat([image, alpha[..., None]], dim=2)


def _add_charts(figure: Figure, coverage: Coverage) -> None:
    """Two plots in the lowest CHARTS inches of a figure."""
    rows = ("row", coverage.context_rows, coverage.target_rows)
    columns = ("column", coverage.context_columns, coverage.target_columns)
    width, height = figure.get_size_inches()
    for index, (name, context, target) in enumerate((rows, columns)):
        left, breadth = (0.06 + 0.5 * index) * width, 0.42 * width
        axes = figure.add_axes((left / width, 0.45 / height, breadth / width, (CHARTS - 0.95) / height))
        chart(axes, f"Chance by {name}", "that a patch there is context or target")
        axes.plot(context, color=BLUE, marker="o", markersize=3.5, linewidth=1.5, label="context")
        axes.plot(target, color=ORANGE, marker="o", markersize=3.5, linewidth=1.5, label="target")
        axes.set_ylim(0, max(1e-3, *context, *target) * 1.12)
        axes.set_xlabel(f"{name} of patches", color=INK, fontsize=SMALL)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.legend(frameon=False, fontsize=SMALL, labelcolor=INK, ncols=2, loc="lower right")


def _to_pixels(inside: Tensor, image: Tensor) -> Tensor:
    """[gh, gw] bool, [h, w, 3] -> [h, w] bool"""
    rows = torch.arange(image.shape[0]) * inside.shape[0] // image.shape[0]
    columns = torch.arange(image.shape[1]) * inside.shape[1] // image.shape[1]
    return inside[rows[:, None], columns]


def _tints(count: int) -> list[str]:
    return [TINTS[block % len(TINTS)] for block in range(count)]
