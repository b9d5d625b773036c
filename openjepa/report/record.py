"""What a report is made from: the files of a run folder, and some images of its data."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from openjepa.core import config as configs
from openjepa.core import seeding, settings
from openjepa.core.config import Config
from openjepa.core.contracts import Source
from openjepa.core.errors import BadInput
from openjepa.data.batches.build import open_images
from openjepa.data.crops import batched
from openjepa.data.crops.crop import NO_DRAWS, CropRequest, RandomCrop, draw_crops
from openjepa.data.crops.evaluation import EvaluationCrop
from openjepa.data.open import open_source
from openjepa.runs import metrics, provenance, scores
from openjepa.runs.directory import RunFolder
from openjepa.runs.provenance import Provenance
from openjepa.runs.scores import Score

SEED = 0  # every choice of the report: two reports of one run are the same
CHUNK = 64  # images decoded at a time


@dataclass(frozen=True)
class Record:
    """Everything but the weights."""

    folder: RunFolder
    config: Config
    provenance: Provenance
    metrics: list[dict[str, Any]]
    scores: list[Score]
    broken: list[dict[str, Any]]  # path and reason

    @property
    def name(self) -> str:
        return self.folder.path.resolve().name

    @property
    def seconds(self) -> float:
        return float(self.metrics[-1]["wall"]) if self.metrics else 0.0

    @property
    def steps(self) -> int:
        return int(self.provenance.steps or (self.metrics[-1]["step"] if self.metrics else 0))


def read(folder: RunFolder) -> Record:
    if not folder.holds_a_run:
        raise BadInput(f'"{folder.path}" is not a run folder; a report needs one, with its config.yaml')
    return Record(
        folder=folder,
        config=configs.load(settings.read(folder.config)),
        provenance=provenance.read(folder) if folder.provenance.exists() else Provenance(),
        metrics=metrics.read(folder.metrics),
        scores=[row for path in sorted(folder.evals.glob("*.json")) for row in scores.read(path)],
        broken=metrics.read(folder.broken),
    )


@dataclass(frozen=True)
class Shown:
    """Images of the run's data: whole, as evaluation sees them, and cropped, as training saw them."""

    split: str
    images: Tensor  # [S, 3, h, w]
    crops: Tensor  # [S, 3, h, w]

    def __len__(self) -> int:
        return len(self.images)

    def to(self, device: torch.device) -> "Shown":
        return Shown(self.split, self.images.to(device), self.crops.to(device))


def load_images(config: Config, num_images: int) -> Shown:
    """Of the test split if there is one; a random choice, always the same."""
    source, split = _open(config)
    data = config.data
    # The purpose "report pictures" is part of the seed: another word would choose other images.
    order = torch.randperm(len(source), generator=seeding.generator(SEED, "report pictures"))[:num_images]
    draws = draw_crops(len(order), seeding.generator(SEED, "report crops"))
    rows = torch.arange(len(order)).split(CHUNK)
    requests = (CropRequest(order[chunk], (NO_DRAWS, draws.take(chunk))) for chunk in rows)
    crop = RandomCrop(size=data.height_width, scale=data.crop_scale, aspect=data.crop_aspect, flip=data.flip)
    batches = open_images(source, (EvaluationCrop(data.height_width), crop)).batches(requests, torch.device("cpu"))
    views = [tuple(batched.normalise(view) for view in batch.views) for batch in batches]
    images, crops = (torch.cat(column) for column in zip(*views, strict=True))
    return Shown(split, images, crops)


def _open(config: Config) -> tuple[Source, str]:
    size = config.data.height_width
    try:
        return open_source(config.data.source, split="test", image_size=size), "test"
    except BadInput:  # it has none, or it is not on this disk
        return open_source(config.data.source, image_size=size), "train"
