"""Multi-head self-attention. The attention weights are computed only on request."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from openjepa.core.errors import BadInput
from openjepa.machine.precision import full_precision


class Attention(nn.Module):
    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        if dim % num_heads:
            raise BadInput(
                f"width {dim} is not a multiple of {num_heads} heads; use {max(dim // num_heads, 1) * num_heads}"
            )
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        """[B, N, D] -> [B, N, D]; `allowed` (bool, broadcast to [B, heads, N, N]) tells which query may attend to which key."""
        x = attend(*self._heads(x), allowed)  # [B, heads, N, D/heads]
        return self.proj(x.transpose(1, 2).flatten(2))

    def weights(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        """[B, N, D] -> [B, heads, N, N]: row = query, column = key, rows sum to 1."""
        query, key, _ = self._heads(x)
        scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -torch.inf)
        return scores.softmax(dim=-1)

    def _heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[B, N, D] -> three times [B, heads, N, D/heads]."""
        qkv = self.qkv(x).unflatten(2, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        return qkv[0], qkv[1], qkv[2]


def attend(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None) -> Tensor:
    """Three times [B, heads, N, D/heads] -> the same shape. On a CPU always in float32: there the backward pass of
    bfloat16 attention takes 5 to 9 times as long, which would eat what bfloat16 gains in the linear layers.
    """
    if query.device.type != "cpu":
        return F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
    with full_precision(query):
        return F.scaled_dot_product_attention(query.float(), key.float(), value.float(), attn_mask=allowed)
