"""Patch tokens as colours: their three leading principal components, with one basis for all images shown.

Equal colours mean similar tokens. Most of a token encodes the *position* of its patch; subtracting the mean token of
each position leaves the *content*.
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
    """[B, 3, h, w] and named [B, N, D]: the images, then a row of colours for each set of tokens."""
    shown = panels.rgb(images)  # [B, h, w, 3]
    sheet, axes = panels.sheet(
        1 + len(tokens), len(images), aspect=images.shape[2] / images.shape[3], labels=("image", *tokens)
    )
    for column, image in enumerate(shown):
        panels.show(axes[0][column], image)
    for row, values in enumerate(tokens.values(), start=1):
        for column, colours in enumerate(enlarge(rgb(values), grid, shown.shape[1:3])):
            panels.show(axes[row][column], colours)
    return sheet


def components(tokens: Tensor, num_components: int = 3) -> Tensor:
    """[..., D] -> [..., C]: coordinates along the leading principal axes of all tokens together."""
    flat = tokens.float().flatten(0, -2)
    centred = flat - flat.mean(dim=0)
    _, _, axes = torch.linalg.svd(centred, full_matrices=False)  # rows are the axes, widest first
    axes = axes[:num_components]
    strongest = axes.abs().argmax(dim=1, keepdim=True)
    axes = axes * axes.gather(1, strongest).sign()  # the sign of an axis is arbitrary; fix it, so that colours repeat
    return (centred @ axes.T).unflatten(0, tokens.shape[:-1])


def rgb(tokens: Tensor) -> Tensor:
    """[B, N, D] -> [B, N, 3] in 0 … 1"""
    values = components(tokens)  # [B, N, 3]
    low, high = values.flatten(0, 1).quantile(torch.tensor([LOW, HIGH]), dim=0)
    return ((values - low) / (high - low).clamp(min=1e-12)).clamp(0, 1)


def without_positions(tokens: Tensor, mean: Tensor) -> Tensor:
    """[B, N, D], [N, D] -> [B, N, D]: what distinguishes a patch from the same position in other images."""
    return tokens - mean


def enlarge(colours: Tensor, grid: Grid, size: torch.Size) -> Tensor:
    """[B, N, 3] -> [B, h, w, 3], smoothly."""
    maps = colours.transpose(1, 2).unflatten(2, grid)  # [B, 3, gh, gw]
    larger = F.interpolate(maps, size=tuple(size), mode="bicubic", align_corners=False)
    return larger.clamp(0, 1).permute(0, 2, 3, 1)
