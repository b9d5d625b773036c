"""What a report is made from: the files of a run folder, and some pictures of its data."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from openjepa.core import config as configs
from openjepa.core import seeding, settings
from openjepa.core.config import Config
from openjepa.core.contracts import Source
from openjepa.core.errors import BadInput
from openjepa.data.batches.from_arrays import Pictures
from openjepa.data.crops import batched
from openjepa.data.open import open_source
from openjepa.runs import metrics, scores
from openjepa.runs.directory import RunFolder
from openjepa.runs.scores import Score

SEED = 0  # every choice of the report: two reports of one run are the same
CHUNK = 64  # pictures decoded at a time


@dataclass(frozen=True)
class Record:
    """Everything but the weights."""

    folder: RunFolder
    config: Config
    provenance: dict[str, Any]
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
        return int(self.provenance.get("steps") or (self.metrics[-1]["step"] if self.metrics else 0))


def read(folder: RunFolder) -> Record:
    if not folder.holds_a_run:
        raise BadInput(f'"{folder.path}" is not a run folder; a report needs one, with its config.yaml')
    return Record(
        folder=folder,
        config=configs.load(settings.read(folder.config)),
        provenance=_json(folder.provenance) if folder.provenance.exists() else {},
        metrics=metrics.read(folder.metrics),
        scores=[row for path in sorted(folder.evals.glob("*.json")) for row in scores.read(path)],
        broken=metrics.read(folder.broken),
    )


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read ({error}); mend or delete it, then write the report again") from None


@dataclass(frozen=True)
class Shown:
    """Pictures of the run's data: whole, as evaluation sees them, and cropped, as training did."""

    split: str
    images: Tensor  # [S, 3, h, w]
    crops: Tensor  # [S, 3, h, w]

    def __len__(self) -> int:
        return len(self.images)

    def to(self, device: torch.device) -> "Shown":
        return Shown(self.split, self.images.to(device), self.crops.to(device))


def pictures(config: Config, num_pictures: int) -> Shown:
    """Of the test split if there is one; a random choice, always the same."""
    source, split = _open(config)
    order = torch.randperm(len(source), generator=seeding.generator(SEED, "report pictures"))[:num_pictures]
    size, scale = config.data.height_width, config.data.crop_scale
    held = Pictures(source, image_size=size, crop_scale=scale[0], cache="none")
    raws = list(held.batches([chunk.tolist() for chunk in order.split(CHUNK)]))
    images = torch.cat([batched.evaluation(raw.images, raw.sizes, size) for raw in raws])
    draws = batched.draw_crops(len(order), seeding.generator(SEED, "report crops"))
    crops = []
    for start, raw in enumerate(raws):
        rows = slice(start * CHUNK, start * CHUNK + len(raw.images))
        aspect, flip = config.data.crop_aspect, config.data.flip
        drawn = draws.take(rows)
        crops.append(batched.training(raw.images, raw.sizes, drawn, size=size, scale=scale, aspect=aspect, flip=flip))
    return Shown(split, images, torch.cat(crops))


def _open(config: Config) -> tuple[Source, str]:
    size = config.data.height_width
    try:
        return open_source(config.data.source, split="test", image_size=size), "test"
    except BadInput:  # it has none, or it is not on this disk
        return open_source(config.data.source, image_size=size), "train"
