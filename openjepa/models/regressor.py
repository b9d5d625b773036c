"""CAE's latent regressor: queries at hidden patches attend to the visible latents and to each other."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from openjepa.core.types import Grid, Masks
from openjepa.nn import init, positions
from openjepa.nn.block import LAYER_NORM_EPS, Mlp

MLP_RATIO = 4


class Regressor(nn.Module):
    def __init__(self, *, dim: int, depth: int, num_heads: int) -> None:
        super().__init__()
        self.dim = dim
        self.mask_token = nn.Parameter(torch.empty(1, 1, dim))
        self.blocks = nn.ModuleList(CrossBlock(dim, num_heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim, eps=LAYER_NORM_EPS)
        init.normal(self)
        nn.init.normal_(self.mask_token, std=init.STD)

    def forward(self, latents: Tensor, masks: Masks, grid: Grid) -> Tensor:
        """[B, C+K, D] -> [B, T, D]: the predicted latents of the hidden patches."""
        table = positions.sincos(grid, self.dim).to(latents.device)  # [N, D]
        hidden = masks.targets.flatten(1)  # [B, T]
        num_class = latents.shape[1] - masks.context.shape[1]
        seen = F.pad(table[masks.context], (0, 0, num_class, 0))  # [B, C+K, D]; a class token has no position
        where = torch.cat([seen, table[hidden]], dim=1)  # [B, C+K+T, D]
        queries = self.mask_token.expand(*hidden.shape, -1)
        for block in self.blocks:
            queries = block(queries, latents, where)
        return self.norm(queries)


class CrossBlock(nn.Module):
    """Positions are added to queries and keys, not to values."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm_query = nn.LayerNorm(dim, eps=LAYER_NORM_EPS)
        self.norm_seen = nn.LayerNorm(dim, eps=LAYER_NORM_EPS)
        self.query, self.key, self.value, self.proj = (nn.Linear(dim, dim) for _ in range(4))
        self.norm2 = nn.LayerNorm(dim, eps=LAYER_NORM_EPS)
        self.mlp = Mlp(dim, MLP_RATIO * dim)

    def forward(self, queries: Tensor, latents: Tensor, where: Tensor) -> Tensor:
        """[B, T, D], [B, C+K, D], [B, C+K+T, D] -> [B, T, D]"""
        normed = self.norm_query(queries)
        seen = torch.cat([self.norm_seen(latents), normed], dim=1)  # [B, C+K+T, D]
        query = self._heads(self.query(normed + where[:, -normed.shape[1] :]))
        key, value = self._heads(self.key(seen + where)), self._heads(self.value(seen))
        attended = F.scaled_dot_product_attention(query, key, value)
        queries = queries + self.proj(attended.transpose(1, 2).flatten(2))
        return queries + self.mlp(self.norm2(queries))

    def _heads(self, x: Tensor) -> Tensor:
        """[B, N, D] -> [B, heads, N, D/heads]"""
        return x.unflatten(2, (self.num_heads, -1)).transpose(1, 2)
