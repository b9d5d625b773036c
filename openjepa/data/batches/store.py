"""Images that were decoded once: in memory, or in one file that every process maps into its memory."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from openjepa.core.contracts import HasFiles
from openjepa.core.errors import BadInput
from openjepa.data.batches import workers
from openjepa.data.batches.images import failure
from openjepa.data.decode.shrink_on_load import Decoded

CHUNK = 32  # images decoded as one piece of work


class DecodedImages(Protocol):
    """Decoded images by index: `FileDecoder` decodes them now, `ImageStore` has decoded them before."""

    def __len__(self) -> int: ...

    def load(self, index: int) -> tuple[Decoded | None, dict[str, str]]:
        """The image or the next valid one, None if there is none; and path -> reason of broken ones, empty if it is valid."""
        ...


class Pieces(Protocol):
    def __getitem__(self, piece: int) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class ImageStore:
    """Images of any sizes, one behind the other, `per_piece` of them in each piece of memory."""

    pieces: Pieces  # each flat uint8
    per_piece: int
    starts: Tensor  # [S] where an image starts in its piece
    table: Tensor  # [S, 6] float64: rows and columns; those of them that the image fills; its own height and width
    broken: dict[int, dict[str, str]]  # index -> path -> reason; the next valid image replaces a broken one

    def __len__(self) -> int:
        return len(self.table)

    def load(self, index: int) -> tuple[Decoded | None, dict[str, str]]:
        rows, columns, *extent, height, width = self.table[index].tolist()
        num_bytes = int(rows * columns) * 3
        flat = self.pieces[index // self.per_piece].narrow(0, int(self.starts[index]), num_bytes)
        pixels = flat.view(int(rows), int(columns), 3)
        return Decoded(pixels, (extent[0], extent[1]), (int(height), int(width))), self.broken.get(index, {})

    def all_broken(self) -> dict[str, str]:
        """path -> reason"""
        return {path: reason for entry in self.broken.values() for path, reason in entry.items()}


@dataclass(frozen=True)
class Part:
    """Some images on their way from a decoding process."""

    pixels: Tensor  # flat uint8
    table: Tensor  # [B, 6], as in ImageStore
    reasons: dict[int, str]  # index -> reason, of broken images
    failure: str = ""


@dataclass(frozen=True)
class Packer:
    """Work for worker processes: indices -> their images, packed."""

    decoder: DecodedImages

    def __getitem__(self, indices: Sequence[int]) -> Part:
        flat, table = [], []
        reasons: dict[int, str] = {}
        for index in indices:
            image, skipped = self.decoder.load(index)
            if image is None:
                return Part(torch.empty(0), torch.empty(0), reasons, failure(skipped))
            if skipped:
                reasons[index] = next(iter(skipped.values()))  # its own; its neighbours may have been skipped too
            flat.append(image.pixels[:, :, :3].flatten())  # a copy: the next image overwrites these pixels
            table.append([*image.pixels.shape[:2], *image.extent, *image.size])
        return Part(torch.cat(flat), torch.tensor(table, dtype=torch.float64), reasons)


def decode_all(decoder: DecodedImages, num_workers: int) -> Iterator[Part]:
    """All images in their order."""
    num_images = len(decoder)
    chunks = (range(start, min(start + CHUNK, num_images)) for start in range(0, num_images, CHUNK))
    for part in workers.each(Packer(decoder), chunks, num_workers=num_workers):
        if part.failure:
            raise BadInput(part.failure)
        yield part


def in_memory(parts: Iterable[Part], source: HasFiles) -> ImageStore:
    pieces: list[Tensor] = []
    tables: list[Tensor] = []
    reasons: dict[int, str] = {}
    for part in parts:
        pieces.append(part.pixels.clone())  # out of the memory shared with a worker, of which there may be little
        tables.append(part.table)
        reasons |= part.reasons
    return ImageStore(
        pieces=pieces,
        per_piece=CHUNK,
        starts=torch.cat([starts_of(table) for table in tables]),
        table=torch.cat(tables),
        broken=with_paths(reasons, source),
    )


def starts_of(table: Tensor) -> Tensor:
    """[S, 6] -> [S], where each image starts when all are in one piece."""
    ends = (table[:, 0] * table[:, 1] * 3).long().cumsum(0)
    return torch.cat([torch.zeros(1, dtype=torch.long), ends[:-1]])


def with_paths(reasons: dict[int, str], source: HasFiles) -> dict[int, dict[str, str]]:
    return {index: {os.fspath(source.path(index)): reason} for index, reason in sorted(reasons.items())}
