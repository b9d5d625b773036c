"""Frozen features: extracted once, in eval mode, without gradients, for several encoders in one pass over the pictures."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from openjepa.data.batches.from_arrays import Pictures, Raw
from openjepa.data.crops.evaluation import Preparation
from openjepa.evaluation import encoders
from openjepa.machine.progress import Track

BATCH_SIZE = 128


@dataclass(frozen=True)
class Extracted:
    layers: Tensor  # [S, L·D] float32
    is_sound: Tensor  # [S] bool; False where a picture is broken and its row means nothing


def extract(
    pictures: Pictures,
    index: Tensor,
    networks: Mapping[str, nn.Module],
    preparation: Preparation,
    *,
    batch_size: int = BATCH_SIZE,
    track: Track | None = None,
) -> dict[str, Extracted]:
    """The pictures at places index [S], by every network; rows in the order of `index`."""
    chunks = [chunk.tolist() for chunk in index.split(batch_size)]
    raws: Iterable[Raw] = pictures.batches(chunks)
    if track is not None:
        raws = track(raws, "extracting features", len(chunks))
    return of_batches(raws, networks, preparation, num_rows=len(index), num_pictures=len(pictures))


def of_batches(
    raws: Iterable[Raw],
    networks: Mapping[str, nn.Module],
    preparation: Preparation,
    *,
    num_rows: int,
    num_pictures: int,
) -> dict[str, Extracted]:
    """The same of batches that are already decoded; `num_rows` pictures of a source of `num_pictures`."""
    is_sound = torch.ones(num_rows, dtype=torch.bool)
    rows: dict[str, Tensor] = {}
    start = 0
    with torch.inference_mode(), encoders.frozen(networks.values()):
        for raw in raws:
            place = slice(start, start + len(raw.index))
            is_sound[place] = raw.is_sound
            images = preparation(raw, num_pictures)
            for name, network in networks.items():
                found = encoders.represent(network, images.to(encoders.device_of(network)))
                if name not in rows:
                    rows[name] = _buffer(num_rows, found.shape[1])
                rows[name][place] = found
            start = place.stop
    return {name: Extracted(found, is_sound) for name, found in rows.items()}


def _buffer(num_rows: int, num_columns: int) -> Tensor:
    """Allocated once, and outside of inference mode: probes will differentiate through what is in it."""
    with torch.inference_mode(False):
        return torch.empty(num_rows, num_columns)
