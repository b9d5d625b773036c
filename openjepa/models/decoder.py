"""MAE's decoder: sees the encoded visible patches and mask tokens, and predicts the pixels of the hidden patches."""

import torch
from torch import Tensor, nn

from openjepa.core.types import Grid, Masks
from openjepa.nn import init, positions
from openjepa.nn.block import LAYER_NORM_EPS, Block

MLP_RATIO = 4


class Decoder(nn.Module):
    def __init__(self, *, dim: int, width: int, depth: int, num_heads: int, output_dim: int) -> None:
        super().__init__()
        self.width = width
        self.embed = nn.Linear(dim, width)
        self.mask_token = nn.Parameter(torch.randn(1, 1, width) * init.STD)
        self.blocks = nn.ModuleList(Block(width, num_heads, MLP_RATIO * width) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=LAYER_NORM_EPS)
        self.proj = nn.Linear(width, output_dim)
        init.xavier(self)

    def forward(self, latents: Tensor, masks: Masks, grid: Grid) -> Tensor:
        """[B, C+K, D] -> [B, T, output]: the pixels of the target patches. C class tokens come first and have no position.

        MAE restores the order of the tokens first; attention does not need it, each token carries its position.
        """
        table = positions.sincos(grid, self.width).to(latents.device)  # [N, W]
        seen = self.embed(latents)  # [B, C+K, W]
        num_class = latents.shape[1] - masks.context.shape[1]
        seen = torch.cat([seen[:, :num_class], seen[:, num_class:] + table[masks.context]], dim=1)
        hidden = masks.targets.flatten(1)  # [B, T]
        x = torch.cat([seen, self.mask_token + table[hidden]], dim=1)  # [B, C+K+T, W]
        for block in self.blocks:
            x = block(x)
        return self.proj(self.norm(x[:, -hidden.shape[1] :]))
