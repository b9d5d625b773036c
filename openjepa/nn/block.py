"""The pre-norm transformer block that encoder and predictor share."""

import torch
from torch import Tensor, nn

from openjepa.nn.attention import Attention

LAYER_NORM_EPS = 1e-6  # I-JEPA's published code; torch's default is 1e-5


class Mlp(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, dim: int, num_heads: int, mlp_hidden: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=LAYER_NORM_EPS)
        self.attn = Attention(dim, num_heads)
        self.norm2 = nn.LayerNorm(dim, eps=LAYER_NORM_EPS)
        self.mlp = Mlp(dim, mlp_hidden)

    def forward(self, x: Tensor, allowed: Tensor | None = None, branch_scale: Tensor | None = None) -> Tensor:
        """[B, N, D] -> [B, N, D]; `branch_scale` [2, B] multiplies the two branches (drop path: 0 or 1/keep)."""
        scale_attn, scale_mlp = (1.0, 1.0) if branch_scale is None else branch_scale[..., None, None]
        x = x + _scaled(self.attn(self.norm1(x), allowed), scale_attn)
        return x + _scaled(self.mlp(self.norm2(x)), scale_mlp)

    def attention_weights(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        """[B, N, D] -> [B, heads, N, N]: the attention of this block for input x."""
        return self.attn.weights(self.norm1(x), allowed)


def _scaled(branch: Tensor, scale: Tensor | float) -> Tensor:
    return branch if isinstance(scale, float) else branch * scale


def drop_path_scales(depth: int, batch_size: int, rate: float, generator: torch.Generator) -> Tensor:
    """-> [depth, 2, B]: 0 where a branch is dropped, else 1/keep; the rate grows linearly with depth up to `rate`."""
    rates = torch.linspace(0, rate, depth)[:, None, None]  # [depth, 1, 1]
    is_active = torch.rand(depth, 2, batch_size, generator=generator) >= rates
    return is_active / (1 - rates)


def blocks_of(network: nn.Module) -> list[nn.Module]:
    """The blocks of a transformer, ours or somebody else's that calls them so; none of other networks."""
    blocks = dict(network.named_children()).get("blocks")
    return list(blocks) if isinstance(blocks, nn.ModuleList | nn.Sequential) else []
