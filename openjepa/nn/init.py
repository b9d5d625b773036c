"""Initial weights as in I-JEPA: normal with std 0.02, biases 0, norms 1 and 0.

The published code cuts the normal at ±2, that is at 100 standard deviations, so a plain normal is the same.
"""

from collections.abc import Iterable

import torch
from torch import nn

from openjepa.nn.block import Block

STD = 0.02


def normal(module: nn.Module, std: float = STD) -> None:
    """Re-initialises every linear layer and layer norm below `module`."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=std)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.LayerNorm) and layer.elementwise_affine:
            nn.init.ones_(layer.weight)
            nn.init.zeros_(layer.bias)


def xavier(module: nn.Module) -> None:
    """Xavier-uniform linear layers with zero biases, as in MAE."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)


@torch.no_grad()
def rescale_by_depth(blocks: Iterable[nn.Module]) -> None:
    """Divides both branch outputs of block l = 1, 2, … by √(2l).

    The published constructors do this, and the published training script then overwrites it; hence off by default.
    """
    for depth, block in enumerate(blocks, start=1):
        assert isinstance(block, Block)
        block.attn.proj.weight.div_((2 * depth) ** 0.5)
        block.mlp.fc2.weight.div_((2 * depth) ** 0.5)
