"""The patch dictionary of a task: learned from a sample of its training images, without labels, or loaded from the disk cache."""

from collections.abc import Iterator

import PIL
import torch
from torch import Tensor

from openjepa.core import seeding
from openjepa.core.errors import BadInput
from openjepa.data import digests
from openjepa.data.crops import batched
from openjepa.data.crops.evaluation import EvaluationCrop
from openjepa.evaluation import features
from openjepa.evaluation.feature_cache import Extractor, open_crops
from openjepa.evaluation.probes.patches import PatchDictionary, Settings, learn
from openjepa.evaluation.tasks.task import Labelled
from openjepa.machine import cache, console, device

VERSION = "1"  # raise it whenever the dictionary of the same images changes
SETTINGS = Settings()


def learned(train: Labelled, crop: EvaluationCrop, extractor: Extractor) -> PatchDictionary:
    """On the device that features are extracted on. The cache holds it under its images, their crop and its settings."""
    order = torch.randperm(len(train.index), generator=seeding.generator(SETTINGS.seed, "patch images"))
    sample = train.take(order[: SETTINGS.num_images])  # in random order: the first ones are of all classes
    images = digests.content_key(extractor.digests(sample))
    key = cache.key("patch dictionary", VERSION, PIL.__version__, images, crop.describe(), str(SETTINGS))
    state = cache.load(key) if extractor.uses_cache else None
    if state is not None:
        return PatchDictionary.load(state, SETTINGS).to(device.choose())
    dictionary = learn(_images(sample, crop), len(sample.index), SETTINGS, console.track)
    if extractor.uses_cache:
        cache.store(key, dictionary.state_dict())
    return dictionary.to(device.choose())


def _images(sample: Labelled, crop: EvaluationCrop) -> Iterator[Tensor]:
    """Batches [B, 3, h, w], normalised, without broken images."""
    batches = features.crops(open_crops(sample, crop), sample.index)
    num_valid = 0
    for batch in console.track(batches, "reading images for patches", -(-len(sample.index) // features.BATCH_SIZE)):
        num_valid += int(batch.is_valid.sum())
        if batch.is_valid.any():
            yield batched.normalise(batch.views[0][batch.is_valid])
    if not num_valid:
        raise BadInput(
            f"none of {len(sample.index)} training images can be decoded; list them with openjepa data check"
        )
