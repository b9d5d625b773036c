"""Some images of a source as a source of its own: whoever loads all of it loads only these."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from openjepa.core.contracts import HasFiles, RendersBatches, Source
from openjepa.core.types import Sample
from openjepa.data.abilities import has_files, is_in_memory, renders_batches
from openjepa.data.sources.arrays import ArraySource


def subset(source: Source, index: Tensor) -> Source:
    """The images at index [S], under the indices 0 … S - 1; it has the abilities of `source` that make loading faster.

    >>> import torch
    >>> from openjepa.data.open import open_source
    >>> from openjepa.data.subset import subset
    >>> scenes = open_source("scenes:8")
    >>> torch.equal(subset(scenes, torch.tensor([5, 2]))[1].image, scenes[2].image)
    True
    """
    if torch.equal(index, torch.arange(len(source))):
        return source
    if is_in_memory(source):
        return ArraySource("subset", source.images[index])
    kind = FileSubset if has_files(source) else RenderedSubset if renders_batches(source) else Subset
    return kind(source, index)


@dataclass(frozen=True)
class Subset:
    source: Source
    index: Tensor  # [S], in the source

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, index: int) -> Sample:
        return self.source[int(self.index[index])]

    def all_labels(self) -> dict[str, Tensor]:
        return {name: values[self.index] for name, values in self.source.all_labels().items()}

    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.index.contiguous().numpy().tobytes())
        return f"{self.source.fingerprint()} {digest.hexdigest()}"


class FileSubset(Subset):
    def path(self, index: int) -> Path:
        assert isinstance(self.source, HasFiles)
        return self.source.path(int(self.index[index]))


class RenderedSubset(Subset):
    def render(self, indices: Sequence[int]) -> tuple[Tensor, dict[str, Tensor]]:
        assert isinstance(self.source, RendersBatches)
        return self.source.render([int(self.index[index]) for index in indices])
