"""The sizes by name. tiny … giant are those of I-JEPA's published code; nano, micro and mini are ours, for CPUs.

`vit-micro/8` means size micro with patches of 8×8 pixels.
"""

import re
from dataclasses import dataclass

from openjepa.core.errors import BadInput
from openjepa.core.registry import did_you_mean


@dataclass(frozen=True)
class Size:
    dim: int
    depth: int
    num_heads: int
    mlp_hidden: int
    predictor_width: int  # 384 from base on, as published (there for every size); below, no wider than the encoder
    predictor_depth: int


SIZES = {
    "nano": Size(64, 3, 2, 256, 32, 2),
    "micro": Size(128, 4, 4, 512, 64, 3),
    "mini": Size(192, 6, 3, 768, 96, 4),
    "tiny": Size(192, 12, 3, 768, 192, 6),
    "small": Size(384, 12, 6, 1536, 192, 6),
    "base": Size(768, 12, 12, 3072, 384, 6),
    "large": Size(1024, 24, 16, 4096, 384, 12),
    "huge": Size(1280, 32, 16, 5120, 384, 12),
    "giant": Size(1408, 40, 16, 6144, 384, 16),
}


def parse(name: str) -> tuple[Size, int]:
    """'vit-tiny/16' -> (Size, 16).

    >>> from openjepa.models.sizes import parse
    >>> size, patch_size = parse("vit-nano/8")
    >>> size.dim, size.depth, patch_size
    (64, 3, 8)
    """
    match = re.fullmatch(r"vit-([a-z]+)/(\d+)", name)
    if match is None:
        raise BadInput(f'model "{name}" is not of the form vit-SIZE/PATCH, such as vit-tiny/16')
    if match[1] not in SIZES:
        raise BadInput(f'unknown size "{match[1]}" in model "{name}"{did_you_mean(match[1], SIZES)}')
    if int(match[2]) == 0:
        raise BadInput(f'patch size 0 in model "{name}"; use 1 or more, such as vit-{match[1]}/16')
    return SIZES[match[1]], int(match[2])
