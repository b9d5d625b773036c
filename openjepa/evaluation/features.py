"""Frozen features: extracted once, in eval mode, without gradients, for several encoders in one pass over the images."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from openjepa.data.batches.images import Images
from openjepa.data.crops import batched, evaluation
from openjepa.data.crops.crop import Cropped
from openjepa.evaluation import encoders
from openjepa.machine.console import Track

BATCH_SIZE = 128
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Extracted:
    layers: Tensor  # [S, L·D] float32
    is_valid: Tensor  # [S] bool; False where an image is broken: ignore its row


def extract(
    images: Images,
    index: Tensor,
    networks: Mapping[str, nn.Module],
    *,
    view: int = 0,
    batch_size: int = BATCH_SIZE,
    track: Track | None = None,
) -> dict[str, Extracted]:
    """Features of the first crop of the images at index [S], by every network; rows in the order of `index`."""
    batches = crops(images, index, view=view, batch_size=batch_size)
    if track is not None:
        batches = track(batches, "extracting features", -(-len(index) // batch_size))
    return of_crops(batches, networks, num_rows=len(index))


def crops(images: Images, index: Tensor, *, view: int = 0, batch_size: int = BATCH_SIZE) -> Iterable[Cropped]:
    """The images at index [S] in batches, as an evaluation sees them."""
    return images.batches(evaluation.requests(index, len(images), view=view, batch_size=batch_size), CPU)


def of_crops(batches: Iterable[Cropped], networks: Mapping[str, nn.Module], *, num_rows: int) -> dict[str, Extracted]:
    """The same of batches that are already cropped."""
    is_valid = torch.ones(num_rows, dtype=torch.bool)
    features: dict[str, Tensor] = {}
    start = 0
    with torch.inference_mode(), encoders.frozen(networks.values()):
        for batch in batches:
            rows = slice(start, start + len(batch.index))
            is_valid[rows] = batch.is_valid
            images = batched.normalise(batch.views[0])
            for name, network in networks.items():
                vectors = encoders.pool_features(network, images.to(encoders.device_of(network)))
                if name not in features:
                    features[name] = _buffer(num_rows, vectors.shape[1])
                features[name][rows] = vectors
            start = rows.stop
    return {name: Extracted(layers, is_valid) for name, layers in features.items()}


def _buffer(num_rows: int, num_columns: int) -> Tensor:
    """Allocated once, and outside of inference mode: probes differentiate through its values."""
    with torch.inference_mode(False):
        return torch.empty(num_rows, num_columns)
