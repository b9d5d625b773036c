"""Learning rates by depth, as in ELECTRA, BEiT and MAE: what is close to the pixels is general and should move less.

Block k of L learns at decay^(L + 1 - k) of the rate, what comes before the blocks as block 0, what comes after at the rate.
"""

from typing import Any

from torch import nn

BEFORE_BLOCKS = ("patch_embed", "pos_embed", "cls_token", "mask_token", "embed")
WRAPPED = "backbone."  # an encoder with a layer behind it, as SimCLR v2 is fine-tuned


def groups(encoder: nn.Module, head: nn.Module, *, decay: float, weight_decay: float) -> list[dict[str, Any]]:
    """Groups for AdamW. Each keeps its factor as "scale", for whoever sets the rate of a step."""
    num_blocks = _num_blocks(encoder)
    named = [*encoder.named_parameters(prefix="encoder"), *head.named_parameters(prefix="head")]
    found: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in named:
        scale = factor(name.removeprefix("encoder.").removeprefix(WRAPPED), num_blocks, decay)
        own_decay = weight_decay if parameter.ndim > 1 else 0.0  # not on biases and norms
        found.setdefault((scale, own_decay), []).append(parameter)
    return [
        {"params": parameters, "scale": scale, "weight_decay": own_decay}
        for (scale, own_decay), parameters in found.items()
    ]


def factor(name: str, num_blocks: int, decay: float) -> float:
    """Of the learning rate, for a parameter called so in the encoder; num_blocks 0: somebody else's, no decay."""
    if num_blocks == 0:
        return 1.0
    if name.startswith(BEFORE_BLOCKS):
        return decay ** (num_blocks + 1)
    if name.startswith("blocks."):
        return decay ** (num_blocks - int(name.split(".")[1]))  # counted from 0 here, hence no + 1
    return 1.0


def _num_blocks(encoder: nn.Module) -> int:
    blocks = getattr(getattr(encoder, "backbone", encoder), "blocks", None)
    return len(blocks) if isinstance(blocks, nn.ModuleList | nn.Sequential) else 0
