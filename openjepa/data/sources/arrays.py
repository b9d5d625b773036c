"""A data set that fits in memory: what the CIFAR, idx and npz readers return."""

import hashlib
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from openjepa.core.errors import BadInput
from openjepa.core.types import Sample


@dataclass(frozen=True)
class ArraySource:
    name: str
    images: Tensor  # [S, 3, h, w] uint8
    labels: dict[str, Tensor] = field(default_factory=dict)  # each [S] int64
    class_names: dict[str, tuple[str, ...]] = field(default_factory=dict)  # a label's numbers in words, where known

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4 or self.images.shape[1] != 3:
            raise BadInput(f"{self.name}: images are {_kind(self.images)}; expected uint8 [S, 3, h, w]")
        for label, values in self.labels.items():
            if values.dtype != torch.int64 or values.shape != (len(self.images),):
                raise BadInput(f'{self.name}: label "{label}" is {_kind(values)}; expected int64 [{len(self.images)}]')

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Sample:
        return Sample(self.images[index], {label: int(values[index]) for label, values in self.labels.items()})

    def all_labels(self) -> dict[str, Tensor]:
        return self.labels

    def fingerprint(self) -> str:
        """sha256 of every pixel and label."""
        digest = hashlib.sha256(f"{tuple(self.images.shape)}".encode())
        for chunk in self.images.split(4096):  # in pieces: a grey set is only a view of its one channel
            digest.update(chunk.contiguous().numpy())
        for label in sorted(self.labels):
            digest.update(label.encode() + self.labels[label].contiguous().numpy().tobytes())
        return digest.hexdigest()


def _kind(x: Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}"


def as_images(array: np.ndarray, name: str) -> Tensor:
    """[S, h, w], [S, h, w, 1|3] or [S, 1|3, h, w], uint8 or float in 0..1 -> [S, 3, h, w] uint8, grey repeated."""
    x = torch.from_numpy(np.require(_eight_bits(array, name), requirements=["C", "W"]))
    if x.ndim == 3:
        x = x.unsqueeze(1)  # [S, 1, h, w]
    elif x.ndim == 4 and x.shape[3] in (1, 3):
        x = x.permute(0, 3, 1, 2)  # [S, 1|3, h, w]
    if x.ndim != 4 or x.shape[1] not in (1, 3) or 0 in x.shape:
        raise BadInput(
            f"{name}: images have shape {list(array.shape)}; expected [S, h, w], [S, h, w, 1 or 3] or [S, 1 or 3, h, w]"
        )
    return x.expand(-1, 3, -1, -1)  # [S, 3, h, w]; of grey only a view, which costs no memory


def _eight_bits(array: np.ndarray, name: str) -> np.ndarray:
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind != "f":
        raise BadInput(f"{name}: images are {array.dtype}; expected uint8, or float in 0..1; convert them to uint8")
    if array.size and not (array.min() >= 0 and array.max() <= 1):  # written so that NaN fails too
        raise BadInput(f"{name}: float images run from {array.min():g} to {array.max():g}; expected 0..1, or use uint8")
    return np.rint(array * array.dtype.type(255)).astype(np.uint8)
