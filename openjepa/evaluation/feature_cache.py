"""Features of labelled pictures for several representations: from the disk cache where possible, else in one pass together."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from openjepa.core.contracts import Source
from openjepa.core.errors import OpenJepaError
from openjepa.core.types import Features
from openjepa.data import digests as identity
from openjepa.data.crops.evaluation import Preparation
from openjepa.evaluation import encoders, features
from openjepa.evaluation.features import Extracted
from openjepa.evaluation.tasks.task import Labelled
from openjepa.machine import cache, console

VERSION = "2"  # raise it whenever features change: old ones in the cache must not be taken for new ones
WORKERS = min(os.cpu_count() or 1, 8)


@dataclass
class Extractor:
    """`networks` by name; features of the same pictures are extracted once, here and on disk."""

    networks: Mapping[str, nn.Module]
    image_size: tuple[int, int]
    uses_cache: bool = True
    # By source and places in it. The source is kept, or another one could get its id.
    _digests: dict[tuple[int, bytes], tuple[Source, Tensor]] = field(default_factory=dict)
    _known: dict[str, Extracted] = field(default_factory=dict)  # by cache key
    _network_keys: dict[str, str] = field(default_factory=dict)

    def features(
        self, name: str, part: Labelled, preparation: Preparation, *, num_views: int = 0
    ) -> tuple[Features, Tensor]:
        """Of one representation, in the order of `part`; and [S] bool, False where a picture is broken and means nothing."""
        found = self._extracted(name, part, preparation)
        dim = encoders.width(self.networks[name], found.layers)
        views = tuple(
            self._extracted(name, part, replace(preparation, view=number), alone=True).layers
            for number in range(1, num_views + 1)
        )
        layers = found.layers if dim < found.layers.shape[1] else None
        return Features(found.layers[:, -dim:], part.labels, layers, views), found.is_sound

    def forget(self) -> None:
        """Frees the memory of a task that is done."""
        self._known.clear()
        self._digests.clear()

    def digests(self, part: Labelled) -> Tensor:
        """[S, 32]"""
        key = (id(part.source), part.index.numpy().tobytes())
        if key not in self._digests:
            self._digests[key] = part.source, self._read(part)
        return self._digests[key][1]

    def is_known(self, part: Labelled, preparation: Preparation) -> bool:
        """Whether the features of these pictures lie here or on disk, without reading a file to find out."""
        if (
            isinstance(part.source, identity.FileSource)
            and identity.remembered(part.source, part.index.tolist()) is None
        ):
            return False
        return self.uses_cache and all(
            self._find(self._key(name, part, preparation)) is not None for name in self.networks
        )

    def _read(self, part: Labelled) -> Tensor:
        return identity.digests(part.source, part.index, track=console.track, uses_cache=self.uses_cache)

    def _extracted(self, name: str, part: Labelled, preparation: Preparation, *, alone: bool = False) -> Extracted:
        """With the other representations in the same pass, if they are not there yet; random views come alone."""
        keys = {other: self._key(other, part, preparation) for other in ([name] if alone else self.networks)}
        if self._find(keys[name]) is None:
            missing = {other: self.networks[other] for other in keys if self._find(keys[other]) is None}
            for other, found in self._extract(part, preparation, missing).items():
                self._keep(keys[other], found)
        return self._known[keys[name]]

    def _extract(
        self, part: Labelled, preparation: Preparation, networks: Mapping[str, nn.Module]
    ) -> dict[str, Extracted]:
        pictures = preparation.pictures(part.source, num_workers=WORKERS, track=console.track)
        found = features.extract(pictures, part.index, networks, preparation, track=console.track)
        for name, one in found.items():
            if not one.layers.isfinite().all():
                raise OpenJepaError(
                    f"the features of the {name} are not finite; its weights are broken, evaluate others"
                )
        broken = int((~next(iter(found.values())).is_sound).sum())
        if broken:
            console.notice(f"notice: {broken} pictures cannot be decoded and are left out")
        return found

    def _find(self, key: str) -> Extracted | None:
        if key not in self._known and self.uses_cache:
            stored = cache.load(key)
            if stored is not None:
                self._known[key] = Extracted(stored["layers"], stored["is_sound"])
        return self._known.get(key)

    def _keep(self, key: str, found: Extracted) -> None:
        self._known[key] = found
        if not self.uses_cache or cache.folder() is None:
            return
        if not cache.store(key, {"layers": found.layers, "is_sound": found.is_sound}):
            console.notice(
                f"notice: cannot write to {cache.folder()}; the next evaluation extracts these features again"
            )

    def _key(self, name: str, part: Labelled, preparation: Preparation) -> str:
        """Pictures by content, in their order; the encoder by weights and behaviour; the preparation by its words."""
        pictures = identity.content_key(self.digests(part))
        return cache.key("features", VERSION, self._network_key(name), pictures, preparation.describe())

    def _network_key(self, name: str) -> str:
        if name not in self._network_keys:
            network = self.networks[name]
            weights, behaviour = encoders.weights_hash(network), encoders.behaviour(network, self.image_size)
            self._network_keys[name] = f"{type(network).__qualname__} {weights} {behaviour}"
        return self._network_keys[name]
