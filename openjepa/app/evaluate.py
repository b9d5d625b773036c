"""Scores of an encoder on tasks, always beside two floors: raw pixels, and the same encoder with random weights."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from openjepa.app import console
from openjepa.app.load import Which, load_encoder
from openjepa.core.contracts import Source, probes
from openjepa.core.types import Features
from openjepa.data.pictures import Pictures
from openjepa.engine import device
from openjepa.models.vit import VisionTransformer
from openjepa.probes import features
from openjepa.runs.directory import RunFolder, write_json
from openjepa.tasks.task import Labelled, Task, open_task

PIXELS, RANDOM, TRAINED = "pixels", "random encoder", "trained"
RANDOM_SEED = 1234  # of the baseline's weights: not the run's own start, which training might remember


@dataclass(frozen=True)
class Score:
    task: str
    probe: str
    representation: str
    accuracy: float
    chance: float  # accuracy of always naming the commonest class of the training set
    num_train: int
    num_test: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def evaluate(
    run: str | Path,
    tasks: Sequence[str],
    *,
    probe_names: Sequence[str] = ("knn", "logistic"),
    which: Which = "target",
    num_train: int | None = None,
    num_test: int | None = None,
) -> list[Score]:
    """Scores of a run, kept in RUN/evals."""
    chosen = device.choose()
    encoder = load_encoder(run, which)
    assert isinstance(encoder, VisionTransformer)
    opened = [open_task(name, image_size=encoder.image_size, num_train=num_train, num_test=num_test) for name in tasks]
    scores = score(encoder.to(chosen), random_like(encoder).to(chosen), opened, probe_names)
    if RunFolder(Path(run)).holds_a_run:
        _store(RunFolder(Path(run)), scores)
    return scores


def score(
    encoder: VisionTransformer, random: VisionTransformer, tasks: Iterable[Task], probe_names: Sequence[str]
) -> list[Score]:
    representations = {PIXELS: features.raw_pixels, RANDOM: random.pool, TRAINED: encoder.pool}
    extractor = _Extractor(encoder.image_size)
    scores = []
    for task in tasks:
        for name, pool in representations.items():
            train, test = (extractor.features(part, name, pool) for part in (task.train, task.test))
            for probe in probe_names:
                accuracy = probes[probe]().fit(train).score(test)["accuracy"]
                scores.append(
                    Score(task.name, probe, name, accuracy, _chance(task), len(train.labels), len(test.labels))
                )
    return scores


def random_like(encoder: VisionTransformer) -> VisionTransformer:
    """The same architecture with fresh weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(RANDOM_SEED)
        return VisionTransformer(
            encoder.size,
            patch_size=encoder.patch_size,
            image_size=encoder.image_size,
            patch_init=encoder.patch_init,
            rescale_init=encoder.rescale_init,
        ).eval()


class _Extractor:
    """Decodes each source once and extracts each representation of it once."""

    def __init__(self, image_size: tuple[int, int]) -> None:
        self.image_size = image_size
        self._pictures: dict[str, Pictures] = {}
        self._vectors: dict[tuple[str, str], tuple[Tensor, Tensor]] = {}

    def features(self, part: Labelled, name: str, pool: features.Pool) -> Features:
        key = part.source.fingerprint()
        if (key, name) not in self._vectors:
            self._vectors[key, name] = features.extract(self._open(key, part.source), pool, image_size=self.image_size)
        vectors, is_sound = self._vectors[key, name]
        kept = is_sound[part.index]
        return Features(vectors[part.index][kept], part.labels[kept])

    def _open(self, key: str, source: Source) -> Pictures:
        if key not in self._pictures:
            opened = Pictures(source, image_size=self.image_size, num_workers=2, track=console.track)
            self._pictures[key] = opened
            if opened.cached is not None and opened.cached.broken:
                console.notice(f"notice: {len(opened.cached.broken)} pictures cannot be decoded and are left out")
        return self._pictures[key]


def _chance(task: Task) -> float:
    commonest = task.train.labels.mode().values
    return (task.test.labels == commonest).float().mean().item()


def _store(folder: RunFolder, scores: list[Score]) -> None:
    for name in {score.task for score in scores}:
        safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
        write_json(folder.evals / f"{safe}.json", [score.as_dict() for score in scores if score.task == name])
