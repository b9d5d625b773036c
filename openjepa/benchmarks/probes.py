"""Speed of evaluation: probes on made-up features, and extracting features beside the bare forward pass."""

import statistics
import time
from functools import partial
from typing import Any

import torch
from torch import Tensor

from openjepa.benchmarks.timer import seconds_of
from openjepa.core import seeding
from openjepa.core.contracts import probes
from openjepa.core.types import Features
from openjepa.data.batches.build import open_images
from openjepa.data.crops import batched
from openjepa.data.crops.evaluation import EvaluationCrop
from openjepa.data.sources.arrays import ArraySource
from openjepa.evaluation import features
from openjepa.evaluation.encoders import NUM_LAYERS
from openjepa.models import sizes
from openjepa.models.vit import VisionTransformer

REPEATS = 5


def on_features(*, num_train: int, num_test: int, dim: int, num_classes: int, names: list[str]) -> list[dict[str, Any]]:
    """Seconds to fit and to predict, for each probe."""
    train, test = (_clouds(number, dim, num_classes, part) for part, number in enumerate((num_train, num_test)))
    rows = []
    for name in names:
        began = time.perf_counter()
        fitted = probes[name]().fit(train)
        middle = time.perf_counter()
        accuracy = fitted.score(test)["accuracy"]
        ended = time.perf_counter()
        rows.append(
            {
                "probe": name,
                "train": f"{num_train} × {dim}",
                "classes": num_classes,
                "fit s": round(middle - began, 2),
                "predict s": round(ended - middle, 2),
                "in all s": round(ended - began, 2),
                "accuracy": round(accuracy, 3),
            }
        )
    return rows


def _clouds(number: int, dim: int, num_classes: int, part: int) -> Features:
    """Overlapping classes, and channels of very different size, as in real features."""
    fixed = seeding.generator(0, "bench centres")
    centres = torch.randn(num_classes, NUM_LAYERS * dim, generator=fixed)
    mixing = torch.randn(NUM_LAYERS * dim, NUM_LAYERS * dim, generator=fixed) / (NUM_LAYERS * dim) ** 0.5
    scale = torch.logspace(0, -2, NUM_LAYERS * dim)
    generator = seeding.generator(0, "bench clouds", part)
    labels = torch.randint(num_classes, (number,), generator=generator)
    noise = torch.randn(number, NUM_LAYERS * dim, generator=generator)
    layers = (0.08 * centres[labels] + noise) @ mixing * scale  # [S, 4·D]
    return Features(layers[:, -dim:], labels, layers)


def extraction(*, model: str, image_size: int, num_images: int) -> dict[str, Any]:
    """Images per second of `features.extract` on images in memory, and of the encoder alone on prepared batches."""
    size, patch_size = sizes.parse(model)
    torch.manual_seed(0)
    encoder = VisionTransformer(size, patch_size=patch_size, image_size=(image_size, image_size)).eval()
    pixels = torch.randint(256, (num_images, 3, image_size, image_size), dtype=torch.uint8)
    images = open_images(ArraySource("noise", pixels), (EvaluationCrop(encoder.image_size),))
    index = torch.arange(num_images)
    batches = [batched.normalise(batch.views[0]) for batch in features.crops(images, index)]
    bare = partial(_forward, encoder, batches)
    whole = partial(features.extract, images, index, {"encoder": encoder})
    times = [(seconds_of(bare), seconds_of(whole)) for _ in range(REPEATS + 1)][1:]  # the first pair allocates
    bare_seconds, whole_seconds = (statistics.median(column) for column in zip(*times, strict=True))
    return {
        "model": model,
        "image size": image_size,
        "images": num_images,
        "bare forward, images per second": round(num_images / bare_seconds, 1),
        "extraction, images per second": round(num_images / whole_seconds, 1),
        "ratio": round(bare_seconds / whole_seconds, 3),
    }


@torch.inference_mode()
def _forward(encoder: VisionTransformer, batches: list[Tensor]) -> None:
    for images in batches:
        encoder(images)
