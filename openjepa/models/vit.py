"""The vision transformer of I-JEPA: no class token, fixed positions, patches may be left out before they are embedded."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from openjepa.core.types import Grid
from openjepa.models.sizes import Size
from openjepa.nn import init, pooling, positions
from openjepa.nn.block import LAYER_NORM_EPS, Block
from openjepa.nn.patches import grid_of, patchify, pick

CHANNELS = 3


class VisionTransformer(nn.Module):
    """Works on any image whose sides are multiples of the patch size; `image_size` (height, width) is only the usual one."""

    def __init__(
        self,
        size: Size,
        *,
        patch_size: int,
        image_size: tuple[int, int],
        drop_path: float = 0.0,
        checkpoint_activations: bool = False,
        rescale_init: bool = False,
        patch_init: float = init.STD,
    ) -> None:
        super().__init__()
        self.size = size
        self.patch_size = patch_size
        self.image_size = image_size
        self.grid = grid_of(*image_size, patch_size)
        self.drop_path = drop_path
        self.patch_init = patch_init
        self.rescale_init = rescale_init
        self.checkpoint_activations = checkpoint_activations
        # A convolution with stride = kernel is a linear map of flattened patches; a map of patches lets us embed a few only.
        self.patch_embed = nn.Linear(CHANNELS * patch_size**2, size.dim)
        self.blocks = nn.ModuleList(Block(size.dim, size.num_heads, size.mlp_hidden) for _ in range(size.depth))
        self.norm = nn.LayerNorm(size.dim, eps=LAYER_NORM_EPS)
        init.normal(self)
        nn.init.normal_(self.patch_embed.weight, std=patch_init)
        if rescale_init:
            init.rescale_by_depth(self.blocks)

    @property
    def dim(self) -> int:
        return self.size.dim

    def forward(
        self,
        images: Tensor,
        keep: Tensor | None = None,
        *,
        valid: Tensor | None = None,
        branch_scales: Tensor | None = None,
    ) -> Tensor:
        """[B, 3, h, w] -> [B, N, D]; with keep [B, K] only these patches are ever looked at -> [B, K, D].

        valid [B, K] marks real patches among padding; branch_scales [depth, 2, B] carries drop path.
        """
        grid = grid_of(images.shape[2], images.shape[3], self.patch_size)
        patches = patchify(images, self.patch_size)  # [B, N, 3·p·p]
        if keep is not None:
            patches = pick(patches, keep)  # [B, K, 3·p·p]
        x = self.embed(patches, grid, keep)
        return self.norm(self._run_blocks(x, _keys(valid), branch_scales))

    def embed(self, patches: Tensor, grid: Grid, keep: Tensor | None = None) -> Tensor:
        """[B, K, 3·p·p] -> [B, K, D]: patch values and their places in the grid."""
        table = positions.sincos(grid, self.dim).to(patches.device)  # [N, D]
        return self.patch_embed(patches) + (table if keep is None else table[keep])

    def pool(self, images: Tensor) -> Tensor:
        """[B, 3, h, w] -> [B, D]: the mean over patch tokens, the representation that probes use."""
        return pooling.mean(self(images))

    def pool_layers(self, images: Tensor, number: int) -> Tensor:
        """[B, 3, h, w] -> [B, L·D]: the pooled outputs of the last blocks, each after the final norm, earliest first."""
        first = len(self.blocks) - number
        asked = (tokens for depth, tokens in enumerate(self.layers(images)) if depth >= first)
        return torch.cat([pooling.mean(self.norm(tokens)) for tokens in asked], dim=1)

    def layers(self, images: Tensor) -> Iterator[Tensor]:
        """The tokens [B, N, D] after each block, without the final norm."""
        grid = grid_of(images.shape[2], images.shape[3], self.patch_size)
        x = self.embed(patchify(images, self.patch_size), grid)
        for block in self.blocks:
            x = block(x)
            yield x

    @torch.no_grad()
    def attention(self, images: Tensor, block: int = -1) -> Tensor:
        """[B, 3, h, w] -> [B, heads, N, N]: where each query patch (row) looks, in any one block."""
        depth = block % len(self.blocks)
        grid = grid_of(images.shape[2], images.shape[3], self.patch_size)
        x = self.embed(patchify(images, self.patch_size), grid)
        for earlier in self.blocks[:depth]:
            x = earlier(x)
        chosen = self.blocks[depth]
        assert isinstance(chosen, Block)
        return chosen.attention_weights(x)

    def _run_blocks(self, x: Tensor, allowed: Tensor | None, branch_scales: Tensor | None) -> Tensor:
        for depth, block in enumerate(self.blocks):
            scale = None if branch_scales is None else branch_scales[depth]
            if self.checkpoint_activations and torch.is_grad_enabled():
                x = checkpoint(block, x, allowed, scale, use_reentrant=False)
            else:
                x = block(x, allowed, scale)
        return x


def _keys(valid: Tensor | None) -> Tensor | None:
    """[B, K] -> [B, 1, 1, K]: nobody attends to padding."""
    return None if valid is None else valid[:, None, None, :]
