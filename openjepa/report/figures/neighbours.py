"""Which images are close to each other: nearest neighbours of whole-image features, by cosine as in the kNN probe."""

import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from openjepa.report.figures import panels


def nearest(vectors: Tensor, queries: Tensor, k: int = 6) -> Tensor:
    """[S, D], [Q] -> [Q, k]: indices of the nearest others, nearest first."""
    unit = F.normalize(vectors.float(), dim=1)
    similarity = unit[queries] @ unit.T  # [Q, S]
    similarity.scatter_(1, queries[:, None], -2.0)  # no image is its own neighbour
    return similarity.topk(min(k, len(vectors) - 1), dim=1).indices


def figure(images: Tensor, queries: Tensor, neighbours: Tensor) -> Figure:
    """[S, 3, h, w], [Q], [Q, k]: a row for each query, itself first."""
    titles = ["query", *(f"nearest {rank + 1}" for rank in range(neighbours.shape[1]))]
    sheet, axes = panels.sheet(
        len(queries), 1 + neighbours.shape[1], aspect=images.shape[2] / images.shape[3], titles=titles, largest=1.2
    )
    for row, query in enumerate(queries.tolist()):
        row_images = images[[query, *neighbours[row].tolist()]]
        for panel, image in zip(axes[row], panels.rgb(row_images), strict=True):
            panels.show(panel, image)
    return sheet
