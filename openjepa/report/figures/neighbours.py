"""Which pictures are close to which: nearest neighbours of whole-picture features, by cosine as in the kNN probe."""

import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from openjepa.report.figures import panels


def nearest(vectors: Tensor, queries: Tensor, k: int = 6) -> Tensor:
    """[S, D], [Q] -> [Q, k]: places of the nearest others, nearest first."""
    unit = F.normalize(vectors.float(), dim=1)
    similarity = unit[queries] @ unit.T  # [Q, S]
    similarity.scatter_(1, queries[:, None], -2.0)  # nobody is their own neighbour
    return similarity.topk(min(k, len(vectors) - 1), dim=1).indices


def figure(images: Tensor, queries: Tensor, found: Tensor) -> Figure:
    """[S, 3, h, w], [Q], [Q, k]: a row for each query, itself first."""
    titles = ["query", *(f"nearest {place + 1}" for place in range(found.shape[1]))]
    sheet, axes = panels.sheet(
        len(queries), 1 + found.shape[1], aspect=images.shape[2] / images.shape[3], titles=titles, largest=1.2
    )
    for row, query in enumerate(queries.tolist()):
        places = [query, *found[row].tolist()]
        for panel, picture in zip(axes[row], panels.rgb(images[places]), strict=True):
            panels.show(panel, picture)
    return sheet
