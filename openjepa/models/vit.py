"""The vision transformer of I-JEPA: fixed positions; patches may be left out before they are embedded.

Other methods need a class token, or a mask token for hidden patches: see EncoderNeeds in core/types.py.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from openjepa.core.types import EncoderNeeds, Grid, Step
from openjepa.models.sizes import Size
from openjepa.nn import init, pooling, positions
from openjepa.nn.block import LAYER_NORM_EPS, Block, drop_path_scales
from openjepa.nn.patches import grid_of, patchify, pick

CHANNELS = 3


class VisionTransformer(nn.Module):
    """Works on any image whose sides are multiples of the patch size; `image_size` (height, width) is only the usual one.

    >>> import torch
    >>> from openjepa.models import sizes
    >>> from openjepa.models.vit import VisionTransformer
    >>> encoder = VisionTransformer(sizes.SIZES["nano"], patch_size=8, image_size=(32, 32))
    >>> images = torch.zeros(2, 3, 32, 32)
    >>> encoder(images).shape, encoder.pool(images).shape
    (torch.Size([2, 16, 64]), torch.Size([2, 64]))
    >>> encoder(images, keep=torch.tensor([[0, 5], [3, 4]])).shape  # two patches of each image
    torch.Size([2, 2, 64])
    >>> encoder.attention(images).shape
    torch.Size([2, 2, 16, 16])
    """

    def __init__(
        self,
        size: Size,
        *,
        patch_size: int,
        image_size: tuple[int, int],
        drop_path: float = 0.0,
        checkpoint_activations: bool = False,
        rescale_init: bool = False,
        weight_init: float = init.STD,
        patch_init: float = init.STD,
        needs: EncoderNeeds = EncoderNeeds(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__()
        self.size = size
        self.patch_size = patch_size
        self.image_size = image_size
        self.grid = grid_of(*image_size, patch_size)
        self.drop_path = drop_path
        self.weight_init = weight_init
        self.patch_init = patch_init
        self.rescale_init = rescale_init
        self.checkpoint_activations = checkpoint_activations
        self.needs = needs
        self.num_class = int(needs.class_token)  # tokens before those of the patches
        # A convolution with stride = kernel is a linear map of flattened patches; as a linear layer it can embed only some.
        self.patch_embed = nn.Linear(CHANNELS * patch_size**2, size.dim)
        self.blocks = nn.ModuleList(Block(size.dim, size.num_heads, size.mlp_hidden) for _ in range(size.depth))
        self.norm = nn.LayerNorm(size.dim, eps=LAYER_NORM_EPS)
        init.normal(self, weight_init)
        nn.init.normal_(self.patch_embed.weight, std=patch_init)
        if rescale_init:
            init.rescale_by_depth(self.blocks)
        # Last, so that the other initial weights do not depend on them. 3-D: weight decay applies to them, as in MAE and BEiT.
        self.cls_token = nn.Parameter(torch.randn(1, 1, size.dim) * init.STD) if needs.class_token else None
        self.mask_token = nn.Parameter(torch.randn(1, 1, size.dim) * init.STD) if needs.mask_token else None

    @property
    def dim(self) -> int:
        return self.size.dim

    def fresh(self) -> "VisionTransformer":
        """The same architecture with new random weights from the same distribution."""
        return VisionTransformer(
            self.size,
            patch_size=self.patch_size,
            image_size=self.image_size,
            rescale_init=self.rescale_init,
            weight_init=self.weight_init,
            patch_init=self.patch_init,
            needs=self.needs,
        )

    def forward(
        self,
        images: Tensor,
        keep: Tensor | None = None,
        *,
        valid: Tensor | None = None,
        branch_scales: Tensor | None = None,
    ) -> Tensor:
        """[B, 3, h, w] -> [B, N, D]; with keep [B, K] the encoder sees only these patches -> [B, K, D].

        valid [B, K] marks real patches among padding; branch_scales [depth, 2, B] carries drop path.
        """
        return self.encode(images, keep, valid=valid, branch_scales=branch_scales)[:, self.num_class :]

    def encode(
        self,
        images: Tensor,
        keep: Tensor | None = None,
        *,
        hidden: Tensor | None = None,
        valid: Tensor | None = None,
        branch_scales: Tensor | None = None,
    ) -> Tensor:
        """As `forward`, but the class token comes first, if there is one -> [B, C+K, D], C = 0 or 1.

        hidden [B, N] bool: True replaces the patch by the mask token; nothing of the patch enters.
        """
        grid = grid_of(images.shape[2], images.shape[3], self.patch_size)
        patches = patchify(images, self.patch_size)  # [B, N, 3·p·p]
        if keep is not None:
            patches = pick(patches, keep)  # [B, K, 3·p·p]
        x = self.embed(patches, grid, keep, hidden)
        return self.norm(self._run_blocks(x, self._keys(valid), branch_scales))

    def embed(self, patches: Tensor, grid: Grid, keep: Tensor | None = None, hidden: Tensor | None = None) -> Tensor:
        """[B, K, 3·p·p] -> [B, C+K, D]: embedded patches plus their positions, after the class token if there is one."""
        x = self.patch_embed(patches)  # [B, K, D]
        if hidden is not None:
            assert self.mask_token is not None, "the method must set needs.mask_token"
            x = torch.where(hidden[..., None], self.mask_token.to(x.dtype), x)
        extent = self.grid if self.needs.stretched_positions else None
        table = positions.sincos(grid, self.dim, extent).to(patches.device)  # [N, D]
        x = x + (table if keep is None else table[keep])
        if self.cls_token is None:
            return x
        return torch.cat([self.cls_token.expand(len(x), -1, -1).to(x.dtype), x], dim=1)  # it has no position

    def pool(self, images: Tensor, branch_scales: Tensor | None = None) -> Tensor:
        """[B, 3, h, w] -> [B, D]: the representation that probes use."""
        return self.summary(self.encode(images, branch_scales=branch_scales))

    def pool_layers(self, images: Tensor, number: int) -> Tensor:
        """[B, 3, h, w] -> [B, L·D]: the pooled outputs of the last blocks, each after the final norm, earliest first."""
        first = len(self.blocks) - number
        last = (tokens for depth, tokens in enumerate(self.layers(images)) if depth >= first)
        return torch.cat([self.summary(self.norm(tokens)) for tokens in last], dim=1)

    def summary(self, tokens: Tensor) -> Tensor:
        """[B, C+N, D] -> [B, D]: the class token if the method's authors evaluate it, else the mean over patches."""
        return tokens[:, 0] if self.needs.pools_class else pooling.mean(tokens[:, self.num_class :])

    def layers(self, images: Tensor) -> Iterator[Tensor]:
        """The tokens [B, C+N, D] after each block, without the final norm."""
        grid = grid_of(images.shape[2], images.shape[3], self.patch_size)
        x = self.embed(patchify(images, self.patch_size), grid)
        for block in self.blocks:
            x = block(x)
            yield x

    def draw_drop_path(
        self, step: Step, purpose: str = "drop path", number: int = 1, *, by_view: bool = False
    ) -> Tensor | None:
        """-> branch_scales [depth, 2, B·number], drawn for the global batch; None without drop path.

        `number` rows per image: one after the other or, `by_view`, all images of a view, then all of the next.
        """
        if not (self.drop_path and self.training):
            return None
        num_rows, depth = step.batch_size * number, len(self.blocks)
        scales = drop_path_scales(depth, num_rows, self.drop_path, step.generator(purpose))
        scales = scales.unflatten(2, (-1, number))[:, :, step.rows]  # [depth, 2, B, number]
        scales = scales.transpose(2, 3) if by_view else scales
        return scales.flatten(2).to(self.norm.weight.device)

    @torch.no_grad()
    def attention(self, images: Tensor, block: int = -1) -> Tensor:
        """[B, 3, h, w] -> [B, heads, N, N]: what each query patch (row) attends to in one block."""
        depth = block % len(self.blocks)
        grid = grid_of(images.shape[2], images.shape[3], self.patch_size)
        x = self.embed(patchify(images, self.patch_size), grid)
        for earlier in self.blocks[:depth]:
            x = earlier(x)
        chosen = self.blocks[depth]
        assert isinstance(chosen, Block)
        return chosen.attention_weights(x)[:, :, self.num_class :, self.num_class :]

    def _run_blocks(self, x: Tensor, allowed: Tensor | None, branch_scales: Tensor | None) -> Tensor:
        for depth, block in enumerate(self.blocks):
            scale = None if branch_scales is None else branch_scales[depth]
            if self.checkpoint_activations and torch.is_grad_enabled():
                x = checkpoint(block, x, allowed, scale, use_reentrant=False)
            else:
                x = block(x, allowed, scale)
        return x

    def _keys(self, valid: Tensor | None) -> Tensor | None:
        """[B, K] -> [B, 1, 1, C+K]: no token attends to padding."""
        if valid is None:
            return None
        return torch.cat([valid.new_ones(len(valid), self.num_class), valid], dim=1)[:, None, None, :]
