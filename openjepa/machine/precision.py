"""Where bfloat16 is too coarse."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor


def full_precision(value: Tensor) -> AbstractContextManager[None]:
    """Switches autocast off on the device of `value`: losses and statistics stay float32."""
    return torch.autocast(value.device.type, enabled=False)
