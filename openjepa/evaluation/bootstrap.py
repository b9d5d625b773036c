"""How sure a score is: 95 % intervals from resampling the test pictures, and the seeds where there are several.

With a handful of seeds their part of the uncertainty is underestimated; the spread over seeds is reported beside it.
"""

import torch
from torch import Tensor

from openjepa.core import seeding

NUM_SAMPLES = 1000
LEVEL = 0.95


def interval(values: Tensor, *, num_samples: int = NUM_SAMPLES) -> tuple[float, float]:
    """[R, S] of R seeds and S test pictures -> the 95 % interval of the mean. The same every time.

    `values` are 0 or 1 for an accuracy, -1, 0 or 1 for the difference of two classifiers on the same pictures.
    """
    num_seeds, num_pictures = values.shape
    generator = seeding.generator(0, "bootstrap")
    means = torch.empty(num_samples)
    for sample in range(num_samples):
        pictures = torch.randint(num_pictures, (num_pictures,), generator=generator)
        seeds = torch.randint(num_seeds, (num_seeds,), generator=generator)
        means[sample] = values[:, pictures].mean(dim=1)[seeds].mean()
    low, high = means.quantile(torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2])).tolist()
    return low, high
