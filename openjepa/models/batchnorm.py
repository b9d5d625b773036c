"""Batch norm with the statistics of the global batch: one process and many give the same result.

torch's SyncBatchNorm works on GPUs only. Each accumulation round still has its own statistics.
"""

import torch
from torch import Tensor, nn

from openjepa.machine import distributed


class BatchNorm(nn.modules.batchnorm._BatchNorm):
    """[B, D] or [B, D, h, w] -> the same shape."""

    def _check_input_dim(self, input: Tensor) -> None:
        assert input.ndim in (2, 4), f"batch norm got {input.ndim} dimensions"

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or distributed.world_size() == 1:
            return super().forward(input)
        x = input.float()
        axes = [axis for axis in range(x.ndim) if axis != 1]
        shape = (1, -1, *[1] * (x.ndim - 2))
        mean = distributed.mean(x.mean(axes))  # [D]
        centred = x - mean.view(shape)
        variance = distributed.mean(centred.square().mean(axes))  # [D]
        self._track(mean.detach(), variance.detach(), num_values=x.numel() // x.shape[1])
        x = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            x = x * self.weight.view(shape) + self.bias.view(shape)
        return x.to(input.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor, num_values: int) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        total = num_values * distributed.world_size()
        self.num_batches_tracked += 1
        momentum = self.momentum if self.momentum is not None else 1 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean, momentum)
        self.running_var.lerp_(variance * total / max(total - 1, 1), momentum)  # unbiased, as in torch
