"""Images as sequences of patches, and how to pick some of them."""

import torch
from torch import Tensor

from openjepa.core.errors import BadInput
from openjepa.core.types import Grid


def grid_of(height: int, width: int, patch_size: int) -> Grid:
    """The patch grid of an image, or a BadInput that names sizes that fit.

    >>> from openjepa.nn.patches import grid_of
    >>> print(grid_of(224, 160, patch_size=16))
    14×10
    """
    for side in (height, width):
        if side % patch_size or side < patch_size:
            below, above = side // patch_size * patch_size, (side // patch_size + 1) * patch_size
            advice = f"use {below} or {above}" if below else f"use {above}"
            raise BadInput(f"image size {side} is not a multiple of patch size {patch_size}; {advice}")
    return Grid(height // patch_size, width // patch_size)


def patchify(images: Tensor, patch_size: int) -> Tensor:
    """[B, 3, h, w] -> [B, N, 3·p·p]; a patch's values run over channel, row, column, as in a convolution's kernel.

    >>> import torch
    >>> from openjepa.nn.patches import patchify
    >>> patchify(torch.zeros(2, 3, 32, 32), patch_size=8).shape
    torch.Size([2, 16, 192])
    """
    grid = grid_of(images.shape[2], images.shape[3], patch_size)
    x = images.unflatten(3, (grid.width, patch_size)).unflatten(2, (grid.height, patch_size))  # [B, 3, gh, p, gw, p]
    return x.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def unpatchify(patches: Tensor, grid: Grid, patch_size: int) -> Tensor:
    """[B, N, 3·p·p] -> [B, 3, h, w], the inverse of patchify.

    >>> import torch
    >>> from openjepa.core.types import Grid
    >>> from openjepa.nn.patches import patchify, unpatchify
    >>> images = torch.rand(2, 3, 32, 32)
    >>> torch.equal(unpatchify(patchify(images, 8), Grid(4, 4), 8), images)
    True
    """
    x = patches.unflatten(2, (-1, patch_size, patch_size)).unflatten(1, grid)  # [B, gh, gw, 3, p, p]
    return x.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)


def normalised(patches: Tensor) -> Tensor:
    """[..., 3·p·p] -> the same, each patch with mean 0 and (unbiased) variance 1: the pixels that MAE predicts.

    >>> import torch
    >>> from openjepa.nn.patches import normalised
    >>> normalised(torch.tensor([[1.0, 2.0, 3.0]])).round()
    tensor([[-1.,  0.,  1.]])
    """
    patches = patches.float()
    variance, mean = torch.var_mean(patches, dim=-1, keepdim=True)
    return (patches - mean) / (variance + 1e-6).sqrt()


def pick(tokens: Tensor, index: Tensor) -> Tensor:
    """[B, N, D], [B, ...] -> [B, ..., D]: the tokens at these indices, image by image.

    >>> import torch
    >>> from openjepa.nn.patches import pick
    >>> tokens = torch.tensor([[[0.0], [10.0], [20.0]]])  # one image, three patches, width 1
    >>> pick(tokens, torch.tensor([[2, 0]])).flatten()
    tensor([20.,  0.])
    """
    flat = index.flatten(1)[..., None].expand(-1, -1, tokens.shape[2])  # [B, I, D]
    return tokens.gather(1, flat).unflatten(1, index.shape[1:])
