"""Which patches a patch attends to: the attention of one query patch to the whole image, head by head.

There is no class token, so a map needs a query; averaging over all queries would hide what single patches do.
"""

import torch
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from torch import Tensor

from openjepa.core.types import Grid
from openjepa.nn.patches import patchify
from openjepa.report.figures import panels
from openjepa.report.figures.style import HEAT

DARKENED = 0.7  # brightness of the grey image under the heat
EVEN = 4  # so that attention spread evenly over the image looks dark, not all bright
STRONGEST = 0.9  # opacity of the largest weight; no weight is transparent


def figure(images: Tensor, weights: Tensor, queries: Tensor, grid: Grid) -> Figure:
    """[B, 3, h, w], [B, heads, N, N], [B, Q]: a row for each query: the image with the query framed, then each head.

    Every panel has its own scale: heads differ in sharpness, and the shape matters more.
    """
    shown = panels.rgb(images)  # [B, h, w, 3]
    maps = query_maps(weights, queries, grid)  # [B, Q, heads, gh, gw]
    num_images, num_queries, num_heads = maps.shape[:3]
    titles = ["query", *(f"head {head + 1}" for head in range(num_heads))]
    sheet, axes = panels.sheet(
        num_images * num_queries, 1 + num_heads, aspect=images.shape[2] / images.shape[3], titles=titles, largest=1.2
    )
    for row, panel_row in enumerate(axes):
        index, query = divmod(row, num_queries)
        image, patch = shown[index], int(queries[index, query])
        panels.show(panel_row[0], image)
        for panel, heat in zip(panel_row[1:], maps[index, query], strict=True):
            panels.show_grey(panel, image, strength=DARKENED)
            panels.lay_over(panel, heat_colours(heat), image)
        for panel in panel_row:
            panels.frame(panel, patch, grid, image)
    return sheet


def query_maps(weights: Tensor, queries: Tensor, grid: Grid) -> Tensor:
    """[B, heads, N, N], [B, Q] -> [B, Q, heads, gh, gw]: the rows of the chosen queries, laid out as the grid."""
    images = torch.arange(len(weights))[:, None]
    return weights.cpu()[images, :, queries].unflatten(3, grid)


def heat_colours(heat: Tensor) -> Tensor:
    """[gh, gw] weights -> [gh, gw, 4]: bright is the largest weight, or EVEN times an even share if that is more."""
    share = heat / max(heat.max().item(), EVEN / heat.numel())
    return panels.coloured(share, ScalarMappable(Normalize(0, 1), HEAT), STRONGEST * share)


def busy_and_plain(images: Tensor, patch_size: int) -> Tensor:
    """[B, 3, h, w] -> [B, 2]: the patch of each image with the most detail, and the one with the least."""
    detail = patchify(images, patch_size).std(dim=2).cpu()  # [B, N]
    return torch.stack([detail.argmax(dim=1), detail.argmin(dim=1)], dim=1)
