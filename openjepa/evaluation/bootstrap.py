"""95 % intervals of scores, from resampling the test images, and the seeds if there are several.

With few seeds their part of the uncertainty is underestimated, so the spread over seeds is reported, too.
"""

import torch
from torch import Tensor

from openjepa.core import seeding

NUM_SAMPLES = 1000
LEVEL = 0.95


def interval(values: Tensor, *, num_samples: int = NUM_SAMPLES) -> tuple[float, float]:
    """[R, S] of R seeds and S test images -> the 95 % interval of the mean; deterministic.

    `values` are 0 or 1 for an accuracy, -1, 0 or 1 for the difference of two classifiers on the same images.
    """
    num_seeds, num_images = values.shape
    generator = seeding.generator(0, "bootstrap")
    means = torch.empty(num_samples)
    for sample in range(num_samples):
        images = torch.randint(num_images, (num_images,), generator=generator)
        seeds = torch.randint(num_seeds, (num_seeds,), generator=generator)
        means[sample] = values[:, images].mean(dim=1)[seeds].mean()
    low, high = means.quantile(torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2])).tolist()
    return low, high
