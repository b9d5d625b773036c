"""I-JEPA's predictor: a narrow transformer that sees the context and predicts each patch of a target block.

`joint` is the paper: each target block is a sequence of its own, [context ; mask tokens], with full attention.
`shared` puts one copy of the context and all blocks' mask tokens into one sequence: context attends to context, a
block's mask tokens attend to context and to each other. Not the same function, and about half the work.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from openjepa.core.numbers import Positive
from openjepa.core.types import Grid, Masks
from openjepa.models.vit import VisionTransformer
from openjepa.nn import init, positions
from openjepa.nn.block import LAYER_NORM_EPS, Block

MLP_RATIO = 4


@dataclass(frozen=True)
class PredictorOptions:
    width: Positive | None = None  # None: what models/sizes.py gives for the encoder's size
    depth: Positive | None = None
    num_heads: Positive | None = (
        None  # None: the encoder's number, as published; fewer and wider heads are faster on CPUs
    )
    attention: Literal["joint", "shared"] = "joint"
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, never changed

    def completed(self, encoder: VisionTransformer) -> "PredictorOptions":
        size = encoder.size
        width = size.predictor_width if self.width is None else self.width
        depth = size.predictor_depth if self.depth is None else self.depth
        num_heads = size.num_heads if self.num_heads is None else self.num_heads
        return replace(self, width=width, depth=depth, num_heads=num_heads)

    def build(self, encoder: VisionTransformer, output_dim: int) -> "Predictor":
        options = self.completed(encoder)
        assert options.width is not None and options.depth is not None and options.num_heads is not None
        return Predictor(
            dim=encoder.dim,
            width=options.width,
            depth=options.depth,
            num_heads=options.num_heads,
            output_dim=output_dim,
            attention=options.attention,
            weight_init=encoder.weight_init,
            rescale_init=encoder.rescale_init,
        )


class Predictor(nn.Module):
    def __init__(
        self,
        *,
        dim: int,
        width: int,
        depth: int,
        num_heads: int,
        output_dim: int | None = None,
        attention: Literal["joint", "shared"] = "joint",
        weight_init: float = init.STD,
        rescale_init: bool = False,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.width = width
        self.embed = nn.Linear(dim, width)
        self.mask_token = nn.Parameter(torch.empty(1, 1, width))  # 3-D as published, so weight decay reaches it
        self.blocks = nn.ModuleList(Block(width, num_heads, MLP_RATIO * width) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=LAYER_NORM_EPS)
        self.proj = nn.Linear(width, dim if output_dim is None else output_dim)
        init.normal(self, weight_init)
        nn.init.normal_(self.mask_token, std=init.STD)
        if rescale_init:
            init.rescale_by_depth(self.blocks)

    def forward(self, context: Tensor, masks: Masks, grid: Grid) -> Tensor:
        """[B, K, D] -> [B, M, T, D]: one prediction per patch of each target block."""
        table = positions.sincos(grid, self.width).to(context.device)  # [N, P]
        seen = self.embed(context) + table[masks.context]  # [B, K, P]
        queries = self.mask_token + table[masks.targets]  # [B, M, T, P]
        run = self._joint if self.attention == "joint" else self._shared
        return self.proj(self.norm(run(seen, queries, masks.context_valid)))

    def _joint(self, seen: Tensor, queries: Tensor, valid: Tensor | None) -> Tensor:
        """[B, K, P], [B, M, T, P] -> [B, M, T, P]: each block in its own sequence."""
        B, M, T, _ = queries.shape
        x = torch.cat([seen[:, None].expand(-1, M, -1, -1), queries], dim=2).flatten(0, 1)  # [B·M, K+T, P]
        allowed = None
        if valid is not None:
            keys = torch.cat([valid, valid.new_ones(B, T)], dim=1)  # [B, K+T]
            allowed = keys.repeat_interleave(M, dim=0)[:, None, None, :]
        for block in self.blocks:
            x = block(x, allowed)
        return x[:, -T:].unflatten(0, (B, M))

    def _shared(self, seen: Tensor, queries: Tensor, valid: Tensor | None) -> Tensor:
        """[B, K, P], [B, M, T, P] -> [B, M, T, P]: all blocks in one sequence with one context."""
        _, M, T, _ = queries.shape
        x = torch.cat([seen, queries.flatten(1, 2)], dim=1)  # [B, K+M·T, P]
        allowed = shared_attention(seen.shape[1], M, T, seen.device)
        if valid is not None:
            keys = torch.cat([valid, valid.new_ones(len(valid), M * T)], dim=1)  # [B, K+M·T]
            allowed = allowed & keys[:, None, None, :]
        for block in self.blocks:
            x = block(x, allowed)
        return x[:, -M * T :].unflatten(1, (M, T))


def shared_attention(num_context: int, num_blocks: int, block_size: int, device: torch.device) -> Tensor:
    """-> [L, L] bool, L = K + M·T: all tokens see the context; a mask token also sees its own block."""
    owner = torch.arange(num_blocks, device=device).repeat_interleave(block_size)
    owner = torch.cat([owner.new_full((num_context,), -1), owner])  # [L]; -1 is the context
    return (owner[None, :] == -1) | (owner[:, None] == owner[None, :])
