"""Features of labelled images for several representations: from the disk cache where possible, else in one pass together."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from openjepa.core.contracts import HasFiles, InMemory, RendersBatches, Source
from openjepa.core.errors import OpenJepaError
from openjepa.core.types import Features
from openjepa.data import digests
from openjepa.data.batches.build import open_images
from openjepa.data.batches.images import Images
from openjepa.data.crops.evaluation import EvaluationCrop
from openjepa.evaluation import encoders, features
from openjepa.evaluation.features import Extracted
from openjepa.evaluation.tasks.task import Labelled
from openjepa.machine import cache, console

VERSION = "3"  # raise it whenever features change: the cache must not return old ones
WORKERS = min(os.cpu_count() or 1, 8)


@dataclass
class Extractor:
    """`networks` by name; features of the same images are extracted once, here and on disk."""

    networks: Mapping[str, nn.Module]
    image_size: tuple[int, int]
    uses_cache: bool = True
    # By id of the source and index in it; holding the source means that no other one can get its id.
    _digests: dict[tuple[int, bytes], tuple[Source, Tensor]] = field(default_factory=dict)
    _extracted: dict[str, Extracted] = field(default_factory=dict)  # by cache key
    _validity: dict[str, Tensor] = field(default_factory=dict)  # by cache key
    _network_keys: dict[str, str] = field(default_factory=dict)

    def features(
        self, name: str, part: Labelled, crop: EvaluationCrop, *, num_views: int = 0, is_alone: bool = False
    ) -> tuple[Features, Tensor]:
        """Of one representation, in the order of `part`; and [S] bool, False where an image is broken: ignore its row.

        The other representations come in the same pass over the images, unless `is_alone`.
        """
        fixed = self._extract(name, part, crop, is_alone=is_alone)
        dim = encoders.width(self.networks[name], fixed.layers)
        views = tuple(
            self._extract(name, part, crop, view=number, is_alone=True).layers for number in range(1, num_views + 1)
        )
        layers = fixed.layers if dim < fixed.layers.shape[1] else None
        return Features(fixed.layers[:, -dim:], part.labels, layers, views), fixed.is_valid

    def are_valid(self, part: Labelled, crop: EvaluationCrop) -> Tensor:
        """[S] bool, False where an image cannot be decoded: stored with its features; without any, decoded to find out."""
        if isinstance(part.source, InMemory | RendersBatches):
            return torch.ones(len(part.index), dtype=torch.bool)
        for name in self.networks:
            known = self._find(self._key(name, part, crop))
            if known is not None:
                return known.is_valid
        key = cache.key("valid images", VERSION, digests.content_key(self.digests(part)))
        if key not in self._validity:
            stored = cache.load(key) if self.uses_cache else None
            self._validity[key] = self._decode(part, crop) if stored is None else stored["is_valid"]
            if self.uses_cache and stored is None:
                cache.store(key, {"is_valid": self._validity[key]})
        return self._validity[key]

    def clear(self) -> None:
        """Frees the memory of a finished task."""
        self._extracted.clear()
        self._validity.clear()
        self._digests.clear()

    def digests(self, part: Labelled) -> Tensor:
        """[S, 32]"""
        key = (id(part.source), part.index.numpy().tobytes())
        if key not in self._digests:
            rows = digests.digests(part.source, part.index, track=console.track, uses_cache=self.uses_cache)
            self._digests[key] = part.source, rows
        return self._digests[key][1]

    def is_known(self, part: Labelled, crop: EvaluationCrop) -> bool:
        """Whether the features of these images are here or on disk, without reading a file to find out."""
        if isinstance(part.source, HasFiles) and digests.cached(part.source, part.index.tolist()) is None:
            return False
        return self.uses_cache and all(self._find(self._key(name, part, crop)) is not None for name in self.networks)

    def _extract(
        self, name: str, part: Labelled, crop: EvaluationCrop, *, view: int = 0, is_alone: bool = False
    ) -> Extracted:
        keys = {other: self._key(other, part, crop, view) for other in ([name] if is_alone else self.networks)}
        if self._find(keys[name]) is None:
            missing = {other: self.networks[other] for other in keys if self._find(keys[other]) is None}
            images = open_crops(part, crop, view)
            extracted = features.extract(images, part.index, missing, view=view, track=console.track)
            _check(extracted)
            for other, rows in extracted.items():
                self._store(keys[other], rows)
        return self._extracted[keys[name]]

    def _decode(self, part: Labelled, crop: EvaluationCrop) -> Tensor:
        batches = features.crops(open_crops(part, crop), part.index)
        tracked = console.track(batches, "decoding images", -(-len(part.index) // features.BATCH_SIZE))
        is_valid = torch.cat([batch.is_valid for batch in tracked])
        _report_broken(is_valid)
        return is_valid

    def _find(self, key: str) -> Extracted | None:
        if key not in self._extracted and self.uses_cache:
            stored = cache.load(key)
            if stored is not None:
                self._extracted[key] = Extracted(stored["layers"], stored["is_valid"])
        return self._extracted.get(key)

    def _store(self, key: str, extracted: Extracted) -> None:
        self._extracted[key] = extracted
        if not self.uses_cache or cache.folder() is None:
            return
        if not cache.store(key, {"layers": extracted.layers, "is_valid": extracted.is_valid}):
            console.notice(
                f"notice: cannot write to {cache.folder()}; the next evaluation extracts these features again"
            )

    def _key(self, name: str, part: Labelled, crop: EvaluationCrop, view: int = 0) -> str:
        """Images by content, in their order; the encoder by weights and behaviour; the crop by its description."""
        images = digests.content_key(self.digests(part))
        return cache.key("features", VERSION, self._network_key(name), images, crop.describe(view))

    def _network_key(self, name: str) -> str:
        if name not in self._network_keys:
            network = self.networks[name]
            weights, behaviour = encoders.weights_hash(network), encoders.behaviour(network, self.image_size)
            self._network_keys[name] = f"{type(network).__qualname__} {weights} {behaviour}"
        return self._network_keys[name]


def open_crops(part: Labelled, crop: EvaluationCrop, view: int = 0) -> Images:
    """The images of a part's source as an evaluation sees them, each decoded or rendered when it is read."""
    num_workers = WORKERS if len(part.index) > features.BATCH_SIZE else 0  # one batch gains nothing from processes
    return open_images(part.source, (crop.view(view),), num_workers=num_workers)


def _check(extracted: Mapping[str, Extracted]) -> None:
    for name, one in extracted.items():
        if not one.layers.isfinite().all():
            raise OpenJepaError(f"the features of the {name} are not finite; its weights are broken, evaluate others")
    _report_broken(next(iter(extracted.values())).is_valid)


def _report_broken(is_valid: Tensor) -> None:
    num_broken = int((~is_valid).sum())
    if num_broken:
        console.notice(f"notice: {num_broken} images cannot be decoded and are left out")
