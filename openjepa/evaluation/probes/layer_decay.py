"""Learning rates by depth, as in ELECTRA, BEiT and MAE: layers close to the pixels are general and should change less.

Block k of L learns at decay^(L + 1 - k) of the rate, parts before the blocks as block 0, parts after them at the full rate.
"""

from typing import Any

from torch import nn

from openjepa.nn.block import blocks_of

BEFORE_BLOCKS = ("patch_embed", "pos_embed", "cls_token", "mask_token", "embed")
WRAPPED = "backbone."  # an encoder followed by a layer, as SimCLR v2 is fine-tuned


def groups(encoder: nn.Module, head: nn.Module, *, decay: float, weight_decay: float) -> list[dict[str, Any]]:
    """Groups for AdamW. Each has its factor of the learning rate as "scale"."""
    num_blocks = _num_blocks(encoder)
    named = [*encoder.named_parameters(prefix="encoder"), *head.named_parameters(prefix="head")]
    parameters: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in named:
        scale = factor(name.removeprefix("encoder.").removeprefix(WRAPPED), num_blocks, decay)
        own_decay = weight_decay if parameter.ndim > 1 else 0.0  # not on biases and norms
        parameters.setdefault((scale, own_decay), []).append(parameter)
    return [
        {"params": group, "scale": scale, "weight_decay": own_decay} for (scale, own_decay), group in parameters.items()
    ]


def factor(name: str, num_blocks: int, decay: float) -> float:
    """Of the learning rate, for the encoder's parameter `name`; num_blocks 0: an encoder without blocks, no decay."""
    if num_blocks == 0:
        return 1.0
    if name.startswith(BEFORE_BLOCKS):
        return decay ** (num_blocks + 1)
    if name.startswith("blocks."):
        return decay ** (num_blocks - int(name.split(".")[1]))  # counted from 0 here, hence no + 1
    return 1.0


def _num_blocks(encoder: nn.Module) -> int:
    inner = dict(encoder.named_children()).get(WRAPPED.removesuffix("."), encoder)
    return len(blocks_of(inner))
