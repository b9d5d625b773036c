"""Where bfloat16 is too coarse."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor


def full_precision(value: Tensor) -> AbstractContextManager[None]:
    """float32 stays float32 in here, also inside a run's autocast: for losses and statistics, on the device of `value`."""
    return torch.autocast(value.device.type, enabled=False)
