"""Encoder, predictor and sizes."""

import pytest
import torch

from openjepa.core.errors import BadInput
from openjepa.core.types import Grid, Masks
from openjepa.models import sizes
from openjepa.models.predictor import Predictor, shared_attention
from openjepa.models.vit import VisionTransformer

# FACTS 1.3: trainable parameters of the published encoders.
PUBLISHED = {
    ("tiny", 16): 5_486_400,
    ("small", 16): 21_589_632,
    ("base", 16): 85_646_592,
    ("large", 16): 303_098_880,
    ("huge", 14): 630_434_560,
    ("giant", 16): 1_011_092_608,
}
# FACTS 1.4: parameters of the predictor, its fixed position table of N·384 values not counted.
PUBLISHED_PREDICTORS = {(768, 6, 12): 11_238_912, (1280, 12, 16): 22_279_424, (1408, 16, 16): 29_475_712}


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


@pytest.mark.parametrize(("name", "patch_size"), PUBLISHED)
def test_encoders_have_the_published_number_of_parameters(name: str, patch_size: int) -> None:
    with torch.device("meta"):
        encoder = VisionTransformer(sizes.SIZES[name], patch_size=patch_size, image_size=(224, 224))
    assert count(encoder) == PUBLISHED[name, patch_size]


@pytest.mark.parametrize(("dim", "depth", "num_heads"), PUBLISHED_PREDICTORS)
def test_predictors_have_the_published_number_of_parameters(dim: int, depth: int, num_heads: int) -> None:
    with torch.device("meta"):
        predictor = Predictor(dim=dim, width=384, depth=depth, num_heads=num_heads)
    assert count(predictor) == PUBLISHED_PREDICTORS[dim, depth, num_heads]


@pytest.mark.parametrize("name", sizes.SIZES)
def test_every_size_makes_an_encoder_and_a_predictor_with_its_heads(name: str) -> None:
    size = sizes.SIZES[name]
    with torch.device("meta"):
        encoder = VisionTransformer(size, patch_size=16, image_size=(32, 48))
        Predictor(dim=size.dim, width=size.predictor_width, depth=size.predictor_depth, num_heads=size.num_heads)
        assert encoder(torch.empty(2, 3, 32, 48)).shape == (2, 6, size.dim)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("vit-tini/16", 'did you mean "tiny"'),
        ("resnet", "not of the form vit-SIZE/PATCH"),
        ("vit-tiny/0", "use 1 or more"),
    ],
)
def test_a_wrong_model_name_is_refused_with_a_hint(name: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        sizes.parse(name)


def test_hidden_pixels_never_reach_the_encoder(tiny_encoder: VisionTransformer) -> None:
    images, keep = torch.randn(2, 3, 32, 32), torch.tensor([[0, 9, 10], [3, 20, 63]])
    features = tiny_encoder(images, keep)
    changed = images.clone()
    for image in range(2):
        for patch in set(range(64)) - set(keep[image].tolist()):
            row, column = divmod(patch, 8)
            changed[image, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = torch.randn(3, 4, 4) * 100
    assert torch.equal(tiny_encoder(changed, keep), features)


def test_keeping_every_patch_changes_nothing(tiny_encoder: VisionTransformer) -> None:
    images = torch.randn(2, 3, 32, 32)
    assert torch.allclose(tiny_encoder(images, torch.arange(64).expand(2, -1)), tiny_encoder(images), atol=1e-6)


def test_padding_changes_nothing_for_the_real_patches(tiny_encoder: VisionTransformer) -> None:
    images, keep = torch.randn(1, 3, 32, 32), torch.tensor([[5, 6, 7]])
    padded, valid = torch.tensor([[5, 6, 7, 0, 0]]), torch.tensor([[True] * 3 + [False] * 2])
    assert torch.allclose(tiny_encoder(images, padded, valid=valid)[:, :3], tiny_encoder(images, keep), atol=1e-6)


def test_an_encoder_works_on_any_grid_also_non_square(tiny_encoder: VisionTransformer) -> None:
    assert tiny_encoder(torch.randn(1, 3, 16, 40)).shape == (1, 40, 16)


def test_activation_checkpointing_gives_the_same_gradients(tiny_encoder: VisionTransformer) -> None:
    images = torch.randn(2, 3, 32, 32)
    tiny_encoder(images).square().mean().backward()
    plain = [parameter.grad.clone() for parameter in tiny_encoder.parameters()]
    tiny_encoder.zero_grad()
    tiny_encoder.checkpoint_activations = True
    tiny_encoder(images).square().mean().backward()
    for before, parameter in zip(plain, tiny_encoder.parameters(), strict=True):
        assert torch.allclose(before, parameter.grad, atol=1e-7)


@pytest.mark.parametrize("block", [0, 1, -1])
def test_attention_rows_sum_to_one_in_any_block(tiny_encoder: VisionTransformer, block: int) -> None:
    weights = tiny_encoder.attention(torch.randn(2, 3, 32, 32), block)
    assert weights.shape == (2, 2, 64, 64)
    assert torch.allclose(weights.sum(dim=-1), torch.ones(2, 2, 64), atol=1e-5)


def test_layers_end_with_what_forward_normalises(tiny_encoder: VisionTransformer) -> None:
    images = torch.randn(1, 3, 32, 32)
    layers = list(tiny_encoder.layers(images))
    assert len(layers) == 2
    assert torch.allclose(tiny_encoder.norm(layers[-1]), tiny_encoder(images), atol=1e-6)


def predictor(attention: str) -> Predictor:
    torch.manual_seed(1)
    return Predictor(dim=16, width=8, depth=2, num_heads=2, attention=attention)


@pytest.mark.parametrize("attention", ["joint", "shared"])
def test_blocks_are_predicted_independently_of_each_other(attention: str) -> None:
    model, context = predictor(attention), torch.randn(2, 5, 16)
    index = torch.arange(5).expand(2, -1)
    targets = torch.tensor([[[10, 11], [30, 31]], [[12, 13], [40, 41]]])
    both = model(context, Masks(index, targets), Grid(8, 8))
    first = model(context, Masks(index, targets[:, :1]), Grid(8, 8))
    assert torch.allclose(both[:, :1], first, atol=1e-6)


def test_shared_attention_is_as_documented_on_a_hand_made_case() -> None:
    allowed = shared_attention(2, 2, 1, torch.device("cpu"))  # context a, b; block 1: c; block 2: d
    expected = torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 0, 1]], dtype=torch.bool)
    assert torch.equal(allowed, expected)


@pytest.mark.parametrize("attention", ["joint", "shared"])
def test_padded_context_gives_the_same_predictions(attention: str) -> None:
    model, context = predictor(attention), torch.randn(1, 3, 16)
    targets = torch.tensor([[[10, 11], [30, 31]]])
    plain = model(context, Masks(torch.tensor([[1, 2, 3]]), targets), Grid(8, 8))
    padded_context = torch.cat([context, torch.randn(1, 2, 16)], dim=1)
    valid = torch.tensor([[True] * 3 + [False] * 2])
    padded = model(padded_context, Masks(torch.tensor([[1, 2, 3, 0, 0]]), targets, valid), Grid(8, 8))
    assert torch.allclose(padded, plain, atol=1e-6)
