"""Pictures that were decoded once and are kept: in memory, or in one file that every process maps into its memory."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from openjepa.core.errors import BadInput
from openjepa.data.batches import workers
from openjepa.data.batches.decoder import failure
from openjepa.data.crops.per_image import OnDemand, Reducible
from openjepa.data.decode.shrink_on_load import Reduced

CHUNK = 32  # pictures decoded as one piece of work


class Pieces(Protocol):
    def __getitem__(self, piece: int) -> Tensor: ...


@dataclass(frozen=True)
class Kept:
    """Pictures of any sizes, one behind the other, `per_piece` of them in each piece of memory."""

    pieces: Pieces  # each flat uint8
    per_piece: int
    starts: Tensor  # [S] where a picture starts in its piece
    table: Tensor  # [S, 6] float64: rows and columns; those of them that the picture fills; its own height and width
    broken: dict[str, str]  # path -> reason; the next sound picture stands in the place of a broken one

    def find(self, index: int) -> tuple[Reduced | None, dict[str, str]]:
        rows, columns, *extent, height, width = self.table[index].tolist()
        num_bytes = int(rows * columns) * 3
        flat = self.pieces[index // self.per_piece].narrow(0, int(self.starts[index]), num_bytes)
        pixels = flat.view(int(rows), int(columns), 3)
        return Reduced(pixels, (extent[0], extent[1]), (int(height), int(width))), {}


@dataclass(frozen=True)
class Part:
    """Some pictures on their way from a decoding process."""

    pixels: Tensor  # flat uint8
    table: Tensor  # [B, 6], as in Kept
    reasons: dict[int, str]  # place -> reason, of broken pictures
    failure: str = ""


@dataclass(frozen=True)
class Packer:
    """Places -> their pictures, packed."""

    shelf: OnDemand

    def __getitem__(self, places: Sequence[int]) -> Part:
        flat, table = [], []
        reasons: dict[int, str] = {}
        for place in places:
            picture, skipped = self.shelf.find(place)
            if picture is None:
                return Part(torch.empty(0), torch.empty(0), reasons, failure(skipped))
            if skipped:
                reasons[place] = next(iter(skipped.values()))  # its own; others may have been skipped on the way
            flat.append(picture.pixels[:, :, :3].flatten())  # a copy: the pixels lie in memory that is used again
            table.append([*picture.pixels.shape[:2], *picture.extent, *picture.size])
        return Part(torch.cat(flat), torch.tensor(table, dtype=torch.float64), reasons)


def decoded(shelf: OnDemand, num_workers: int) -> Iterator[Part]:
    """All pictures in their order."""
    num_pictures = len(shelf.source)
    chunks = (range(start, min(start + CHUNK, num_pictures)) for start in range(0, num_pictures, CHUNK))
    for part in workers.each(Packer(shelf), chunks, num_workers=num_workers):
        if part.failure:
            raise BadInput(part.failure)
        yield part


def in_memory(parts: Iterable[Part], source: Reducible) -> Kept:
    pieces: list[Tensor] = []
    tables: list[Tensor] = []
    reasons: dict[int, str] = {}
    for part in parts:
        pieces.append(part.pixels.clone())  # out of the memory shared with a worker, of which there may be little
        tables.append(part.table)
        reasons |= part.reasons
    starts = torch.cat([starts_of(table) for table in tables])
    return Kept(pieces, CHUNK, starts, torch.cat(tables), by_path(reasons, source))


def starts_of(table: Tensor) -> Tensor:
    """[S, 6] -> [S], when these pictures lie in one piece."""
    ends = (table[:, 0] * table[:, 1] * 3).long().cumsum(0)
    return torch.cat([torch.zeros(1, dtype=torch.long), ends[:-1]])


def by_path(reasons: dict[int, str], source: Reducible) -> dict[str, str]:
    return {os.fspath(source.path(place)): reason for place, reason in sorted(reasons.items())}
