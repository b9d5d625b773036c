"""Positions, patches, attention and blocks against torch and hand-made cases."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from openjepa.core.errors import BadInput
from openjepa.core.types import Grid
from openjepa.nn import attention, ema, init, pooling
from openjepa.nn.attention import Attention
from openjepa.nn.block import Block, blocks_of, drop_path_scales
from openjepa.nn.patches import grid_of, patchify, pick, unpatchify
from openjepa.nn.positions import sincos


def test_positions_follow_the_published_layout_on_a_hand_made_case() -> None:
    table = sincos(Grid(2, 3), 8)
    row, column = 1, 2
    frequencies = [1.0, 10000 ** (-1 / 2)]
    expected = [math.sin(column * f) for f in frequencies] + [math.cos(column * f) for f in frequencies]
    expected += [math.sin(row * f) for f in frequencies] + [math.cos(row * f) for f in frequencies]
    assert torch.allclose(table[row * 3 + column], torch.tensor(expected))
    assert table.shape == (6, 8)


def test_positions_of_a_larger_grid_contain_those_of_a_smaller_one() -> None:
    small, large = sincos(Grid(3, 4), 16), sincos(Grid(5, 7), 16).unflatten(0, (5, 7))
    assert torch.equal(small, large[:3, :4].flatten(0, 1))


def test_positions_need_a_width_divisible_by_four() -> None:
    with pytest.raises(ValueError, match="use 20"):
        sincos(Grid(2, 2), 18)


def test_patches_through_a_linear_layer_equal_a_strided_convolution() -> None:
    convolution = nn.Conv2d(3, 5, kernel_size=4, stride=4)
    images = torch.randn(2, 3, 8, 12)
    expected = convolution(images).flatten(2).transpose(1, 2)  # [B, N, D]
    ours = nn.functional.linear(patchify(images, 4), convolution.weight.flatten(1), convolution.bias)
    assert torch.allclose(ours, expected, atol=1e-6)


def test_unpatchify_undoes_patchify_on_non_square_images() -> None:
    images = torch.randn(2, 3, 8, 12)
    assert torch.equal(unpatchify(patchify(images, 4), Grid(2, 3), 4), images)


def test_pick_equals_a_loop_over_images() -> None:
    tokens, index = torch.randn(3, 7, 2), torch.randint(7, (3, 2, 4))
    picked = pick(tokens, index)
    for image in range(3):
        assert torch.equal(picked[image], tokens[image][index[image]])


@pytest.mark.parametrize(("height", "advice"), [(225, "use 224 or 240"), (10, "use 16")])
def test_an_image_that_does_not_fit_the_patches_is_refused_with_sizes_that_do(height: int, advice: str) -> None:
    with pytest.raises(BadInput, match=f"image size {height} is not a multiple of patch size 16; {advice}"):
        grid_of(height, 32, 16)


def torch_attention(ours: Attention, dim: int) -> nn.MultiheadAttention:
    theirs = nn.MultiheadAttention(dim, ours.num_heads, batch_first=True)
    theirs.in_proj_weight.data, theirs.in_proj_bias.data = ours.qkv.weight.data, ours.qkv.bias.data
    theirs.out_proj.weight.data, theirs.out_proj.bias.data = ours.proj.weight.data, ours.proj.bias.data
    return theirs.eval()


@pytest.mark.parametrize("is_masked", [False, True])
def test_attention_and_its_weights_equal_torchs(is_masked: bool) -> None:
    ours, x = Attention(16, 4), torch.randn(2, 5, 16)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2]) if is_masked else None
    theirs = torch_attention(ours, 16)
    expected, weights = theirs(x, x, x, key_padding_mask=padding, average_attn_weights=False)
    allowed = None if padding is None else ~padding[:, None, None, :]
    assert torch.allclose(ours(x, allowed), expected, atol=1e-6)
    assert torch.allclose(ours.weights(x, allowed), weights, atol=1e-6)


def test_block_equals_torchs_pre_norm_encoder_layer() -> None:
    ours, x = Block(16, 4, 32), torch.randn(2, 5, 16)
    theirs = nn.TransformerEncoderLayer(16, 4, 32, 0.0, "gelu", 1e-6, batch_first=True, norm_first=True).eval()
    theirs.self_attn = torch_attention(ours.attn, 16)
    theirs.norm1, theirs.norm2, theirs.linear1, theirs.linear2 = ours.norm1, ours.norm2, ours.mlp.fc1, ours.mlp.fc2
    assert torch.allclose(ours(x), theirs(x), atol=1e-6)


def test_a_dropped_branch_leaves_its_image_unchanged() -> None:
    block, x = Block(16, 4, 32), torch.randn(2, 5, 16)
    y = block(x, None, torch.tensor([[0.0, 1.0], [0.0, 1.0]]))
    assert torch.equal(y[0], x[0])
    assert torch.allclose(y[1], block(x)[1])


def test_drop_path_keeps_the_expectation_and_grows_with_depth() -> None:
    scales = drop_path_scales(3, 20_000, 0.4, torch.Generator().manual_seed(0))
    assert torch.allclose(scales.mean(dim=(1, 2)), torch.ones(3), atol=0.02)
    dropped = (scales == 0).float().mean(dim=(1, 2))
    assert torch.allclose(dropped, torch.tensor([0.0, 0.2, 0.4]), atol=0.01)


def test_initial_weights_have_the_published_spread_with_and_without_depth_rescaling() -> None:
    blocks = nn.ModuleList(Block(64, 4, 256) for _ in range(3))
    init.normal(blocks)
    stds = [block.mlp.fc2.weight.std().item() for block in blocks]
    assert stds == pytest.approx([0.02] * 3, rel=0.05)
    init.rescale_by_depth(blocks)
    stds = [block.mlp.fc2.weight.std().item() for block in blocks]
    assert stds == pytest.approx([0.02 / math.sqrt(2 * depth) for depth in (1, 2, 3)], rel=0.05)


def test_a_follower_moves_by_one_minus_momentum() -> None:
    target, source = nn.Linear(3, 2), nn.Linear(3, 2)
    expected = [0.9 * t + 0.1 * s for t, s in zip(target.parameters(), source.parameters(), strict=True)]
    ema.follow(target, source, 0.9)
    for ours, theirs in zip(target.parameters(), expected, strict=True):
        assert torch.allclose(ours, theirs)


def test_the_mean_ignores_padding() -> None:
    tokens = torch.randn(2, 3, 4)
    valid = torch.tensor([[True, True, False], [True, True, True]])
    assert torch.allclose(pooling.mean(tokens, valid)[0], tokens[0, :2].mean(dim=0))
    assert torch.allclose(pooling.mean(tokens, valid)[1], pooling.mean(tokens)[1])


def test_blocks_are_found_by_name_and_only_where_there_are_some(tiny_encoder) -> None:
    assert blocks_of(tiny_encoder) == list(tiny_encoder.blocks)
    assert blocks_of(torch.nn.Linear(2, 2)) == []


def test_on_a_cpu_attention_stays_in_float32_under_autocast() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 2, 5, 4)
    exact = F.scaled_dot_product_attention(query, key, value)
    with torch.autocast("cpu", torch.bfloat16):
        ours = attention.attend(query, key, value, None)
    assert torch.equal(ours, exact)


def test_first_weights_have_the_deviation_of_the_setting() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(200, 200)
    init.normal(layer, 0.06)
    assert layer.weight.std().item() == pytest.approx(0.06, rel=0.02) and not layer.bias.any()
