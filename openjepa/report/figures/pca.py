"""Patch tokens as colours: their three leading principal components, with one basis for all pictures shown.

Equal colours mean similar tokens. Most of a token says *where* its patch is; taking away the mean token of each place
leaves *what* is there.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from openjepa.core.types import Grid
from openjepa.report.figures import panels

LOW, HIGH = 0.01, 0.99  # quantiles that become the darkest and the brightest value of a channel


def figure(images: Tensor, tokens: Mapping[str, Tensor], grid: Grid) -> Figure:
    """[B, 3, h, w] and named [B, N, D]: the pictures, then a row of colours for each set of tokens."""
    pictures = panels.rgb(images)
    sheet, axes = panels.sheet(
        1 + len(tokens), len(images), aspect=images.shape[2] / images.shape[3], labels=("picture", *tokens)
    )
    for column, picture in enumerate(pictures):
        panels.show(axes[0][column], picture)
    for row, values in enumerate(tokens.values(), start=1):
        for column, colours in enumerate(enlarge(rgb(values), grid, pictures.shape[1:3])):
            panels.show(axes[row][column], colours)
    return sheet


def components(tokens: Tensor, num_components: int = 3) -> Tensor:
    """[..., D] -> [..., C]: coordinates along the leading principal axes over everything given."""
    flat = tokens.float().flatten(0, -2)
    centred = flat - flat.mean(dim=0)
    _, _, axes = torch.linalg.svd(centred, full_matrices=False)  # rows are the axes, widest first
    axes = axes[:num_components]
    strongest = axes.abs().argmax(dim=1, keepdim=True)
    axes = axes * axes.gather(1, strongest).sign()  # a direction has no sign of its own; fix it, so that colours repeat
    return (centred @ axes.T).unflatten(0, tokens.shape[:-1])


def rgb(tokens: Tensor) -> Tensor:
    """[B, N, D] -> [B, N, 3] in 0 … 1"""
    values = components(tokens)  # [B, N, 3]
    low, high = values.flatten(0, 1).quantile(torch.tensor([LOW, HIGH]), dim=0)
    return ((values - low) / (high - low).clamp(min=1e-12)).clamp(0, 1)


def without_places(tokens: Tensor, mean: Tensor) -> Tensor:
    """[B, N, D], [N, D] -> [B, N, D]: what distinguishes a patch from the same place in other pictures."""
    return tokens - mean


def enlarge(colours: Tensor, grid: Grid, size: torch.Size) -> Tensor:
    """[B, N, 3] -> [B, h, w, 3], smoothly."""
    maps = colours.transpose(1, 2).unflatten(2, grid)  # [B, 3, gh, gw]
    larger = F.interpolate(maps, size=tuple(size), mode="bicubic", align_corners=False)
    return larger.clamp(0, 1).permute(0, 2, 3, 1)
