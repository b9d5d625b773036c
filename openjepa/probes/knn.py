"""Weighted k-nearest-neighbour voting on the unit sphere: k = 20, weight exp(cosine / 0.07), as in DINO and MSN."""

from dataclasses import dataclass, field
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from openjepa.core.config import Above, Positive
from openjepa.core.contracts import Probe, probes
from openjepa.core.types import Features

CHUNK_NUMBERS = 2**25  # similarities in memory at a time: 128 MB, however large the training set is


@probes.register("knn")
@dataclass(kw_only=True)
class NearestNeighbours(Probe):
    k: Positive = 20
    temperature: Above = 0.07
    _train: Features | None = field(default=None, init=False, repr=False)

    def fit(self, train: Features) -> Self:
        self._train = Features(F.normalize(train.vectors, dim=1), train.labels)
        return self

    def predict(self, test: Features) -> Tensor:
        assert self._train is not None, "fit first"
        num_queries = max(CHUNK_NUMBERS // len(self._train.labels), 1)
        return torch.cat([self._vote(chunk) for chunk in F.normalize(test.vectors, dim=1).split(num_queries)])

    def _vote(self, queries: Tensor) -> Tensor:
        assert self._train is not None, "fit first"
        similarity, nearest = (queries @ self._train.vectors.T).topk(min(self.k, len(self._train.labels)))  # [Q, k]
        num_classes = int(self._train.labels.max()) + 1
        votes = torch.zeros(len(queries), num_classes)
        votes.scatter_add_(1, self._train.labels[nearest], (similarity / self.temperature).exp())
        return votes.argmax(dim=1)
