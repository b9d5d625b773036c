"""Sheets of images: rows and columns of panels, with maps of patches over them. Coordinates are pixels."""

import itertools
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from openjepa.core.types import Grid
from openjepa.data.crops.batched import MEAN, STD
from openjepa.report.figures.style import INK, TEXT

WIDTH = 10.0  # inches of a full sheet
GAP = 0.07  # between panels
LABELS, TITLES = 1.15, 0.3  # room at the left and at the top
LARGEST_SIDE = 160  # pixels: a panel shows no more, and larger images would make a report heavy


def rgb(images: Tensor) -> Tensor:
    """[B, 3, h, w], normalised or uint8 -> [B, h, w, 3] in 0 … 1, shrunk to what a panel can show."""
    colours = images.float() / 255 if images.dtype == torch.uint8 else _denormalised(images)
    shrink = LARGEST_SIDE / max(images.shape[2:])
    if shrink < 1:
        colours = F.interpolate(colours, scale_factor=shrink, mode="area", recompute_scale_factor=True)
    return colours.permute(0, 2, 3, 1).cpu()


def _denormalised(images: Tensor) -> Tensor:
    mean, std = (torch.tensor(values, device=images.device)[:, None, None] for values in (MEAN, STD))
    return (images * std + mean).clamp(0, 1)


def sheet(
    rows: int,
    columns: int,
    *,
    aspect: float = 1.0,
    labels: Sequence[str] = (),
    titles: Sequence[str] = (),
    largest: float = 1.3,
    bottom: float = 0.0,
) -> tuple[Figure, list[list[Axes]]]:
    """Equal panels, height / width = aspect, row labels at the left, column titles at the top. Sizes in inches."""
    left, top = LABELS if labels else 0.0, TITLES if titles else 0.0
    side = min(largest, (WIDTH - left) / columns - GAP)
    step_x, step_y = side + GAP, side * aspect + GAP
    width, height = left + columns * step_x, top + rows * step_y + bottom
    figure = Figure(figsize=(width, height))
    axes: list[list[Axes]] = [[] for _ in range(rows)]
    for row, column in itertools.product(range(rows), range(columns)):
        box = (left + column * step_x, height - top - (row + 1) * step_y + GAP, side, side * aspect)
        axes[row].append(_panel(figure, box))
    for row, label in enumerate(labels):
        panel = axes[row][0]
        panel.text(-0.09, 0.5, label, transform=panel.transAxes, ha="right", va="center", color=INK, fontsize=TEXT)
    for column, title in enumerate(titles):
        axes[0][column].set_title(title, color=INK, fontsize=TEXT, pad=5)
    return figure, axes


def _panel(figure: Figure, box: tuple[float, float, float, float]) -> Axes:
    """`box` is left, bottom, width and height in inches."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes((box[0] / width, box[1] / height, box[2] / width, box[3] / height))
    axes.set_axis_off()
    return axes


def show(axes: Axes, image: Tensor) -> None:
    """[h, w, 3] or [h, w, 4] in 0 … 1"""
    axes.imshow(image.numpy(), extent=_extent(image), interpolation="none", aspect="equal")


def show_grey(axes: Axes, image: Tensor, *, strength: float = 1.0) -> None:
    """[h, w, 3]: without colours, so that the colours of a map on top can be read."""
    show(axes, (image.mean(dim=2, keepdim=True) * strength).expand_as(image))


def lay_over(axes: Axes, colours: Tensor, image: Tensor) -> None:
    """[gh, gw, 4]: each colour over its patch."""
    axes.imshow(colours.numpy(), extent=_extent(image), interpolation="none", aspect="equal")


def coloured(values: Tensor, scale: ScalarMappable, alpha: Tensor) -> Tensor:
    """[gh, gw] values and opacities -> [gh, gw, 4]. Not left to imshow, which drops a map of opacities in SVG files."""
    colours = torch.from_numpy(scale.to_rgba(values.numpy())).float()
    return torch.cat([colours[..., :3], alpha[..., None]], dim=2)


def frame(axes: Axes, patch: int, grid: Grid, image: Tensor, *, colour: str = "white", width: float = 1.6) -> None:
    """A line around one patch, dark below so that it shows on any image."""
    height, breadth = image.shape[0] / grid.height, image.shape[1] / grid.width
    corner = (patch % grid.width * breadth, patch // grid.width * height)
    for edge, thickness in (("black", 2.2 * width), (colour, width)):
        axes.add_patch(Rectangle(corner, breadth, height, fill=False, edgecolor=edge, linewidth=thickness))


def outline(axes: Axes, inside: Tensor, image: Tensor, *, colour: str, width: float = 1.8) -> None:
    """[gh, gw] bool: a line around a set of patches of any shape."""
    padded = F.pad(inside.int(), (1, 1, 1, 1))
    height, breadth = image.shape[0] / inside.shape[0], image.shape[1] / inside.shape[1]
    across = (padded.diff(dim=0)[:, 1:-1] != 0).nonzero()  # edges above row r, over column c
    along = (padded.diff(dim=1)[1:-1] != 0).nonzero()  # edges left of column c, beside row r
    lines = [((c * breadth, r * height), ((c + 1) * breadth, r * height)) for r, c in across.tolist()]
    lines += [((c * breadth, r * height), (c * breadth, (r + 1) * height)) for r, c in along.tolist()]
    for start, end in lines:
        axes.plot(
            *np.transpose([start, end]),
            color=colour,
            linewidth=width,
            solid_capstyle="round",
            scalex=False,
            scaley=False,
        )


def _extent(image: Tensor) -> tuple[float, float, float, float]:
    return (0.0, float(image.shape[1]), float(image.shape[0]), 0.0)
