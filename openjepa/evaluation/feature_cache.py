"""Features of labelled images for several representations: from the disk cache where possible, else in one pass together."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import PIL
import torch
from torch import Tensor, nn

from openjepa.core.contracts import Source
from openjepa.core.errors import OpenJepaError
from openjepa.core.types import Features
from openjepa.data import digests
from openjepa.data.abilities import has_files, is_in_memory, renders_batches
from openjepa.data.batches.build import open_images
from openjepa.data.batches.images import Images
from openjepa.data.crops.evaluation import EvaluationCrop
from openjepa.evaluation import encoders, features
from openjepa.evaluation.features import Extracted
from openjepa.evaluation.tasks.task import Labelled
from openjepa.machine import cache, console
from openjepa.runs.scores import PIXELS

VERSION = "4"  # raise it whenever features change: the cache must not return old ones
WORKERS = min(os.cpu_count() or 1, 8)


@dataclass(kw_only=True)
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
    ) -> Features:
        """Of one representation, in the order of `part`; ignore the rows of broken images (`are_valid`).

        The other representations come in the same pass over the images, unless `is_alone`.
        """
        fixed = self._extract(name, part, crop, is_alone=is_alone)
        dim = encoders.width(self.networks[name], fixed.layers)
        views = tuple(
            self._extract(name, part, crop, view=number, is_alone=True).layers for number in range(1, num_views + 1)
        )
        layers = fixed.layers if dim < fixed.layers.shape[1] else None
        return Features(fixed.layers[:, -dim:], part.labels, layers, views)

    def are_valid(self, part: Labelled, crop: EvaluationCrop, *, is_alone: bool = False) -> Tensor:
        """[S] bool, False where an image cannot be decoded.

        Read from the cache if it is there, else a result of extracting features, of raw pixels only if `is_alone`.
        """
        if is_in_memory(part.source) or renders_batches(part.source):
            return torch.ones(len(part.index), dtype=torch.bool)
        key = self._validity_key(part)
        if key not in self._validity and self.uses_cache:
            stored = cache.load(key)
            if stored is not None:
                self._validity[key] = stored["is_valid"]
        if key not in self._validity:
            self._validity[key] = self._extract(PIXELS, part, crop, is_alone=is_alone).is_valid
        return self._validity[key]

    def put(self, name: str, network: nn.Module) -> None:
        """Adds or replaces a network: a patch dictionary belongs to one task."""
        self.networks = {**self.networks, name: network}
        self._network_keys.pop(name, None)

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
        if has_files(part.source) and digests.cached(part.source, part.index.tolist()) is None:
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
            self._store_validity(part, extracted[name].is_valid)
        return self._extracted[keys[name]]

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

    def _store_validity(self, part: Labelled, is_valid: Tensor) -> None:
        key = self._validity_key(part)
        if key not in self._validity:
            self._validity[key] = is_valid
            if self.uses_cache:
                cache.store(key, {"is_valid": is_valid})

    def _validity_key(self, part: Labelled) -> str:
        return cache.key("valid images", VERSION, PIL.__version__, digests.content_key(self.digests(part)))

    def _key(self, name: str, part: Labelled, crop: EvaluationCrop, view: int = 0) -> str:
        """Images by content, in their order; the encoder by weights and behaviour; the crop by its description.

        Files also by Pillow's version: another one may decode to other values.
        """
        images = digests.content_key(self.digests(part))
        decoder = PIL.__version__ if has_files(part.source) else ""
        return cache.key("features", VERSION, decoder, self._network_key(name), images, crop.describe(view))

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
    num_broken = int((~next(iter(extracted.values())).is_valid).sum())
    if num_broken:
        console.notice(f"notice: {num_broken} images cannot be decoded and are left out")
