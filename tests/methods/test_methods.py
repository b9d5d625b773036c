"""The defining equations of mae, data2vec and cae against slow and obvious versions, and what holds for all methods."""

import copy

import pytest
import torch

from conftest import TINY
from method_parts import encoder, images, step
from openjepa.core import schema
from openjepa.core.contracts import methods
from openjepa.core.types import Batch, EncoderNeeds, Grid, Masks, Step
from openjepa.machine import device
from openjepa.masks.blockwise import Blockwise
from openjepa.methods.cae import CAE
from openjepa.methods.data2vec import Data2Vec
from openjepa.methods.mae import MAE
from openjepa.models.regressor import Regressor
from openjepa.models.vit import VisionTransformer
from openjepa.nn import ema
from openjepa.nn.patches import patchify
from openjepa.nn.positions import sincos


def test_mae_is_the_squared_error_of_hidden_normalised_patches() -> None:
    method = MAE(encoder("mae"))
    given, masks = images(), method.masks(step())
    assert masks.context.shape == (4, 16), "a quarter of 64 patches is seen"
    errors = []
    for row in range(4):
        latents = method.backbone.encode(given[row : row + 1], masks.context[row : row + 1])
        painted = method.decoder(latents, masks.rows(slice(row, row + 1)), Grid(8, 8))[0]
        for place, patch in enumerate(masks.targets[row, 0].tolist()):
            pixels = patchify(given[row : row + 1], 4)[0, patch]
            target = (pixels - pixels.mean()) / (pixels.var() + 1e-6).sqrt()
            errors.append((painted[place] - target).square().mean())
    loss = method.training_step(Batch(given, torch.arange(4)), step()).loss
    torch.testing.assert_close(loss, torch.stack(errors).mean())


def test_mae_never_sees_hidden_pixels() -> None:
    method = MAE(encoder("mae"))
    given, masks = images(), method.masks(step())
    spoiled = patchify(given, 4).scatter(1, masks.targets[:, 0, :, None].expand(-1, -1, 48), float("nan"))
    whole = spoiled.unflatten(1, (8, 8)).unflatten(3, (3, 4, 4)).permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)
    assert method.backbone.encode(whole, masks.context).isfinite().all()


def test_data2vec_predicts_the_mean_of_normalised_blocks() -> None:
    method = Data2Vec(encoder("data2vec"), target_blocks=2)
    given = images()
    expected = []
    for row in range(4):
        blocks = [tokens[0, 1:] for tokens in method.teacher.layers(given[row : row + 1])]
        normal = [(x - x.mean(1, keepdim=True)) / (x.var(1, correction=0, keepdim=True) + 1e-5).sqrt() for x in blocks]
        mean = sum(normal) / len(normal)
        expected.append((mean - mean.mean(1, keepdim=True)) / (mean.var(1, correction=0, keepdim=True) + 1e-5).sqrt())
    torch.testing.assert_close(method.targets(given), torch.stack(expected).detach(), atol=1e-5, rtol=1e-4)


def test_data2vecs_student_sees_nothing_of_hidden_patches() -> None:
    method = Data2Vec(encoder("data2vec"))
    hidden = method.masks(step()).targets.flatten(1)
    first, second = images(), images(seed=2)
    is_hidden = torch.zeros(4, 64, dtype=torch.bool).scatter(1, hidden, True)
    pixels = is_hidden.unflatten(1, (8, 8)).repeat_interleave(4, 1).repeat_interleave(4, 2)[:, None]
    torch.testing.assert_close(
        method.predict(first, hidden, step()), method.predict(torch.where(pixels, second, first), hidden, step())
    )


def test_data2vecs_loss_is_a_square_up_to_beta_and_then_a_line() -> None:
    method = Data2Vec(encoder("data2vec"), beta=2.0)
    errors = torch.tensor([0.5, 1.9, 3.0])
    expected = sum(0.5 * e * e / 2 if e < 2 else e - 1 for e in errors.tolist()) / 3
    assert method.distance(errors, torch.zeros(3)).item() == pytest.approx(expected)


def test_cae_adds_twice_the_latents_error_to_the_paintings() -> None:
    method = CAE(encoder("cae"))
    given = images()
    output = method.training_step(Batch(given, torch.arange(4)), step())
    masks = method.masks(step())
    hidden = masks.targets.flatten(1)
    guessed = method.regressor(method.backbone.encode(given, masks.context), masks, Grid(8, 8))
    latents = torch.stack([method.backbone(given[row : row + 1], hidden[row : row + 1])[0] for row in range(4)])
    painting = (method.painted(guessed, hidden) - method.pixels(given, hidden)).square().mean()
    torch.testing.assert_close(output.loss, painting + 2 * (guessed - latents.detach()).square().mean())


def test_caes_regressor_asks_visible_and_guessed_tokens_whose_values_know_no_place() -> None:
    """One block with one head, written out for one image."""
    torch.manual_seed(0)
    regressor = Regressor(dim=8, depth=1, num_heads=1)
    for weight in regressor.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    (block,), table = regressor.blocks, sincos(Grid(2, 2), 8)
    latents = torch.randn(3, 8)  # class token, patch 0, patch 3
    asked = [block.norm_query(regressor.mask_token[0, 0])] * 2  # of patches 1 and 2
    seen = [*block.norm_seen(latents), *asked]
    places = [torch.zeros(8), table[0], table[3], table[1], table[2]]
    keys = [block.key(token + place) for token, place in zip(seen, places, strict=True)]
    expected = []
    for patch in (1, 2):
        query = block.query(asked[0] + table[patch])
        weights = torch.stack([query @ key / 8**0.5 for key in keys]).softmax(dim=0)
        answer = sum(weight * block.value(token) for weight, token in zip(weights, seen, strict=True))
        token = regressor.mask_token[0, 0] + block.proj(answer)
        expected.append(regressor.norm(token + block.mlp(block.norm2(token))))
    masks = Masks(torch.tensor([[0, 3]]), torch.tensor([[[1, 2]]]))
    torch.testing.assert_close(regressor(latents[None], masks, Grid(2, 2))[0], torch.stack(expected))


def test_blockwise_hides_exactly_the_wanted_share_in_few_pieces() -> None:
    masks = Blockwise(target_scale=0.6)(64, Grid(14, 14), torch.Generator().manual_seed(0))
    assert masks.targets.shape == (64, 1, 118) and masks.context.shape == (64, 78)
    both = torch.cat([masks.targets[:, 0], masks.context], dim=1).sort(dim=1).values
    assert torch.equal(both, torch.arange(196).expand(64, -1))
    hidden = torch.zeros(64, 196).scatter(1, masks.targets[:, 0], 1.0).unflatten(1, (14, 14))
    alike = (hidden[:, 1:] == hidden[:, :-1]).float().mean() + (hidden[:, :, 1:] == hidden[:, :, :-1]).float().mean()
    assert alike / 2 > 0.75, "neighbours share their fate; at random 0.52"


def test_a_class_token_changes_nothing_for_those_who_have_none() -> None:
    plain = VisionTransformer(TINY, patch_size=4, image_size=(32, 32))
    assert not any("token" in name for name in plain.state_dict())
    with_both = VisionTransformer(
        TINY, patch_size=4, image_size=(32, 32), needs=EncoderNeeds(class_token=True, mask_token=True)
    )
    assert with_both(images()).shape == (4, 64, 16) and with_both.encode(images()).shape == (4, 65, 16)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("data2vec", (0.999, 0.9994, 0.9998)),  # linear
        ("byol", (0.996, 0.998, 1.0)),  # half a cosine
        ("dino", (0.996, 0.998, 1.0)),
        ("ibot", (0.996, 0.998, 1.0)),
        ("msn", (0.996, 0.9976, 0.9992)),  # linear, made for 1.25 times the run
    ],
)
def test_teachers_follow_with_the_published_momentum(
    name: str, expected: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start, in the middle and at the end of a run."""
    method, used = methods[name](encoder(name)), []
    monkeypatch.setattr(ema, "follow", lambda copy, original, momentum: used.append(momentum))
    for index in (0, 5, 10):
        method.after_update(Step(index=index, total=10, seed=0, batch_size=4, rows=slice(0, 4)))
    assert sorted({round(momentum, 6) for momentum in used}) == pytest.approx(expected)


def test_a_setting_given_in_part_keeps_the_methods_other_defaults() -> None:
    ibot = schema.resolve_named(methods, {"name": "ibot", "head": {"num_prototypes": 64}, "crops": {"num_local": 1}})
    assert ibot["head"].is_unit is False and ibot["crops"].global_scale == (0.25, 1.0)
    mae = schema.resolve_named(methods, {"name": "mae", "masks": {"target_scale": 0.6}})
    assert mae["masks"]["name"] == "random" and mae["masks"]["target_scale"] == 0.6
    other = schema.resolve_named(methods, {"name": "mae", "masks": {"name": "block"}})
    assert other["masks"]["name"] == "block" and other["masks"]["target_scale"] != 0.75


@pytest.mark.parametrize("name", methods.names())
def test_the_loss_is_computed_in_float32_inside_autocast(name: str) -> None:
    """Networks may run in bfloat16, the rest may not: the loss is close to that of float32, and is a float32."""
    if (reason := device.probe_bfloat16("cpu")) is not None:
        pytest.skip(reason)
    method = methods[name](encoder(name)).train()
    views = tuple(images(side=view.size[0], seed=seed) for seed, view in enumerate(method.augmentations))
    batch = Batch(images(), torch.arange(4), views)
    exact = copy.deepcopy(method)(batch, step()).loss
    with torch.autocast("cpu", torch.bfloat16):
        coarse = method(batch, step()).loss
    assert coarse.dtype == torch.float32
    torch.testing.assert_close(coarse, exact, rtol=0.05, atol=0)
