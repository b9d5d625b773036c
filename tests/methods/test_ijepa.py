"""I-JEPA against a slow, obvious version: image by image, block by block."""

import copy
import inspect
import itertools

import pytest
import torch
import torch.nn.functional as F

from openjepa.core import schedule
from openjepa.core.contracts import PredictsBlocks
from openjepa.core.errors import BadInput
from openjepa.core.types import Batch, Masks, Step
from openjepa.methods.ijepa import IJEPA
from openjepa.models.centering import Centering
from openjepa.models.predictor import PredictorOptions
from openjepa.models.vit import VisionTransformer
from openjepa.nn.positions import sincos


def step(index: int = 0, batch_size: int = 4, rows: slice | None = None) -> Step:
    return Step(index=index, total=100, seed=7, batch_size=batch_size, rows=rows or slice(0, batch_size))


def batch(batch_size: int = 4) -> Batch:
    images = torch.randn(batch_size, 3, 32, 32, generator=torch.Generator().manual_seed(3))
    return Batch(images, torch.arange(batch_size))


def slow_targets(method: IJEPA, image: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    """[3, h, w], [T] -> [T, D]"""
    if method.target_kind == "pixels":
        vectors = []
        for patch in block.tolist():
            row, column = divmod(patch, 8)
            pixels = image[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4].flatten()
            vectors.append((pixels - pixels.mean()) / (pixels.var(unbiased=False) + 1e-5).sqrt())
        return torch.stack(vectors)
    if method.target_masking == "input":
        tokens = method.target_encoder(image[None], block[None])[0]
    elif method.target_blocks > 1:
        layers = list(method.target_encoder.layers(image[None]))[-method.target_blocks :]
        tokens = torch.stack([F.layer_norm(layer[0], layer.shape[-1:]) for layer in layers]).mean(dim=0)[block]
    else:
        tokens = method.target_encoder(image[None])[0][block]
    return torch.stack([(t - t.mean()) / (t.var(unbiased=False) + 1e-5).sqrt() for t in tokens])


def slow_prediction(method: IJEPA, image: torch.Tensor, context: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    """[3, h, w], [K], [T] -> [T, D]: one sequence, token by token."""
    predictor = method.predictor
    table = sincos(method.context_encoder.grid, predictor.width)
    seen = method.context_encoder(image[None], context[None])[0]
    tokens = [predictor.embed(seen[i]) + table[p] for i, p in enumerate(context.tolist())]
    tokens += [predictor.mask_token[0, 0] + table[p] for p in block.tolist()]
    x = torch.stack(tokens)[None]
    if predictor.attention == "shared":  # the context never attends to mask tokens
        K = len(context)
        allowed = torch.ones(len(tokens), len(tokens), dtype=torch.bool)
        allowed[:K, K:] = False
        for layer in predictor.blocks:
            x = layer(x, allowed)
    else:
        for layer in predictor.blocks:
            x = layer(x)
    return predictor.proj(predictor.norm(x[0, len(context) :]))


def slow_loss(method: IJEPA, images: torch.Tensor, masks: Masks) -> torch.Tensor:
    errors = []
    for image in range(len(images)):
        context = masks.context[image]
        if masks.context_valid is not None:
            context = context[masks.context_valid[image]]
        for block in masks.targets[image]:
            difference = (
                slow_prediction(method, images[image], context, block) - slow_targets(method, images[image], block)
            ).abs()
            if method.loss == "l2":
                errors.append(difference**2)
            else:
                errors.append(torch.where(difference < 1, 0.5 * difference**2, difference - 0.5))
    return torch.stack(errors).mean()


CHOICES = itertools.product(
    ["joint", "shared"],
    ["smooth_l1", "l2"],
    [("encoder", "output"), ("encoder", "input"), ("pixels", "output")],
    ["side", "pad"],
)


@pytest.mark.parametrize(("attention", "loss", "target", "equalize"), CHOICES)
def test_the_loss_equals_a_slow_obvious_version(
    tiny_encoder: VisionTransformer, attention, loss, target, equalize
) -> None:
    method = IJEPA(
        tiny_encoder,
        masks={"name": "multiblock", "equalize": equalize},
        predictor=PredictorOptions(attention=attention),
        loss=loss,
        targets=target[0],
        target_masking=target[1],
    )
    for parameter in method.target_encoder.parameters():  # unlike the context encoder, so that a mix-up shows
        parameter.data += 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    fast = method.training_step(batch(), step()).loss
    slow = slow_loss(method, batch().images, method.masks(step()))
    assert torch.allclose(fast, slow, rtol=1e-4)


def test_targets_of_several_blocks_equal_the_slow_version(tiny_encoder) -> None:
    for parameter in tiny_encoder.parameters():  # the blocks of a fresh encoder do next to nothing
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    method, masks = IJEPA(tiny_encoder, target_blocks="all"), IJEPA(tiny_encoder).masks(step())
    assert method.target_blocks == 2
    fast = method.training_step(batch(), step()).loss
    assert torch.allclose(fast, slow_loss(method, batch().images, masks), rtol=1e-4)
    last_only = IJEPA(tiny_encoder).targets(batch().images, masks)
    assert (method.targets(batch().images, masks) - last_only).abs().mean() > 0.1


@pytest.mark.parametrize(
    "options",
    [
        {"target_blocks": 3},
        {"target_blocks": 2, "target_masking": "input"},
        {"target_centering": "position", "targets": "pixels"},
    ],
    ids=str,
)
def test_impossible_target_blocks_are_refused(tiny_encoder, options: dict) -> None:
    with pytest.raises(BadInput, match="target_blocks"):
        IJEPA(tiny_encoder, **options)


def test_gradient_reaches_context_encoder_and_predictor_and_never_the_target_encoder(tiny_encoder) -> None:
    method = IJEPA(tiny_encoder)
    method.training_step(batch(), step()).loss.backward()
    for module in (method.context_encoder, method.predictor):
        for name, parameter in module.named_parameters():
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
    assert all(parameter.grad is None for parameter in method.target_encoder.parameters())


def test_hidden_pixels_do_not_change_the_predictions(tiny_encoder) -> None:
    method, images = IJEPA(tiny_encoder), batch()
    masks = method.masks(step())
    before = method.predict(images, masks, step())
    visible = torch.zeros(4, 64, dtype=torch.bool).scatter_(1, masks.context, True).unflatten(1, (8, 8))
    pixels = visible.repeat_interleave(4, dim=1).repeat_interleave(4, dim=2)[:, None]
    hidden_changed = torch.where(pixels, images.images, torch.randn_like(images.images) * 50)
    assert torch.equal(method.predict(Batch(hidden_changed, images.index), masks, step()), before)


def test_the_target_encoder_follows_on_the_published_line(tiny_encoder) -> None:
    method = IJEPA(tiny_encoder, momentum=(0.9, 1.0))
    start = copy.deepcopy(method.target_encoder)
    for parameter in method.context_encoder.parameters():
        parameter.data += 1.0
    method.after_update(step(50))  # half way: momentum 0.95
    for old, new in zip(start.parameters(), method.target_encoder.parameters(), strict=True):
        assert torch.allclose(new, old + 0.05, atol=1e-6)
    assert schedule.linear(0.5, 0.9, 1.0) == pytest.approx(0.95)


def test_masks_of_an_image_do_not_depend_on_how_the_batch_is_shared(tiny_encoder) -> None:
    method = IJEPA(tiny_encoder)
    whole = method.masks(step(batch_size=8))
    half = method.masks(step(batch_size=8, rows=slice(4, 8)))
    assert torch.equal(whole.context[4:], half.context) and torch.equal(whole.targets[4:], half.targets)


def test_drop_path_of_an_image_does_not_depend_on_how_the_batch_is_shared(tiny_encoder) -> None:
    tiny_encoder.drop_path = 0.5
    method, eight = IJEPA(tiny_encoder).train(), batch(8)
    whole_step, half_step = step(batch_size=8), step(batch_size=8, rows=slice(4, 8))
    whole = method.predict(eight, method.masks(whole_step), whole_step)
    second = Batch(eight.images[4:], eight.index[4:])
    half = method.predict(second, method.masks(half_step), half_step)
    assert torch.allclose(whole[4:], half, atol=1e-5)
    tiny_encoder.drop_path = 0.0
    assert not torch.allclose(method.predict(second, method.masks(half_step), half_step), half)


def test_centering_removes_the_mean_of_each_position(tiny_encoder) -> None:
    """After one update the center is the batch mean, and targets are layer-normed differences from it."""
    method, four = IJEPA(tiny_encoder, target_centering="position"), batch()
    method.training_step(four, step(0))
    with torch.no_grad():
        tokens = method.target_encoder(four.images)
    method.momentum = (1.0, 1.0)
    method.after_update(step(0))
    assert method.centring is not None and torch.allclose(method.centring.mean, tokens.mean(dim=0), atol=1e-6)
    masks = method.masks(step(1))
    expected = F.layer_norm(tokens - tokens.mean(dim=0), tokens.shape[-1:])
    for image in range(4):
        assert torch.allclose(
            method.targets(four.images, masks)[image], expected[image][masks.targets[image]], atol=1e-4
        )


def test_the_center_is_saved_and_evaluation_does_not_move_it(tiny_encoder) -> None:
    method = IJEPA(tiny_encoder, target_centering="position")
    assert "centring.mean" in method.state_dict() and "centring.new_mean" not in method.state_dict()
    method.eval()
    method.training_step(batch(), step())
    method.after_update(step())
    assert method.centring is not None and method.centring.mean.abs().sum() == 0


def test_whitened_targets_have_the_same_variance_in_every_direction() -> None:
    """Tokens with one dominant direction: after the first update their covariance is close to a multiple of the identity."""
    centring = Centering(64, 16, "whiten")
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(16, 16, generator=generator)
    tokens = torch.randn(64, 64, 16, generator=generator) @ mixing + torch.randn(64, 16, generator=generator)
    centring(tokens)
    centring.update(0)
    whitened = centring.eval()(tokens).flatten(0, 1)
    before = torch.linalg.eigvalsh(torch.cov(tokens.flatten(0, 1).T))
    after = torch.linalg.eigvalsh(torch.cov(whitened.T))
    assert before[-1] / before[4] > 5 and after[-1] / after[4] < 1.6


def test_a_batch_in_parts_is_whitened_like_the_batch() -> None:
    """Each part has its own mean; only that of all counts. Against torch.cov of tokens minus the mean of their position."""
    whole, parts = Centering(4, 6, "whiten"), Centering(4, 6, "whiten")
    for index in range(2):
        tokens = torch.randn(8, 4, 6, generator=torch.Generator().manual_seed(index)) + 3 * torch.randn(4, 6)
        whole(tokens)
        for part in tokens.split(2):
            parts(part)
        whole.update(index)
        parts.update(index)
        if index == 0:
            spread = torch.cov((tokens - tokens.mean(dim=0)).flatten(0, 1).T, correction=0)
            torch.testing.assert_close(whole.covariance, spread, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(whole.mean, parts.mean)
    torch.testing.assert_close(whole.covariance, parts.covariance, atol=1e-5, rtol=1e-4)


def test_whitening_stays_in_float32_under_autocast() -> None:
    centring, tokens = Centering(4, 16, "whiten"), torch.randn(8, 4, 16)
    with torch.autocast("cpu", torch.bfloat16):
        assert centring(tokens.bfloat16()).dtype == torch.float32
        assert centring.new_covariance.dtype == torch.float32


def test_loss_scale_of_a_fresh_model_is_as_known(tiny_encoder) -> None:
    """FACTS 1.7: predicting zeros against unit-variance targets gives 0.42; a fresh predictor gives almost 0."""
    loss = IJEPA(tiny_encoder).training_step(batch(16), step(batch_size=16)).loss.item()
    assert 0.35 < loss < 0.55


def test_several_contexts_of_an_image_cost_one_target_pass_and_equal_the_image_repeated(tiny_encoder) -> None:
    method = IJEPA(tiny_encoder, num_contexts=3)
    seen: list[torch.Size] = []
    method.target_encoder.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].shape))
    images = batch()
    masks = method.masks(step())
    loss = method.training_step(images, step()).loss
    assert seen == [torch.Size([4, 3, 32, 32])] and len(masks.context) == 12
    torch.testing.assert_close(loss, slow_loss(method, images.images.repeat_interleave(3, dim=0), masks))


def test_the_contexts_of_an_image_do_not_depend_on_the_number_of_processes(tiny_encoder) -> None:
    method = IJEPA(tiny_encoder, num_contexts=2)
    whole = method.masks(step())
    part = method.masks(step(rows=slice(1, 3)))
    assert torch.equal(part.context, whole.context[2:6]) and torch.equal(part.targets, whole.targets[2:6])


def test_every_ability_of_ijepa_is_seen_without_looking_into_submodules(tiny_encoder) -> None:
    """Python 3.12 checks protocols with inspect.getattr_static, to which submodules are invisible."""
    method = IJEPA(tiny_encoder)
    for name in ("draw_masks", "masks", "targets", "predict_blocks", "distance"):
        inspect.getattr_static(method, name)
    assert isinstance(method, PredictsBlocks)


def test_the_predictor_has_the_encoders_heads_unless_another_number_is_set(tiny_encoder: VisionTransformer) -> None:
    usual, fewer = (PredictorOptions(num_heads=number).build(tiny_encoder, 8) for number in (None, 1))
    assert usual.blocks[0].attn.num_heads == tiny_encoder.size.num_heads and fewer.blocks[0].attn.num_heads == 1
    assert [weight.shape for weight in usual.parameters()] == [weight.shape for weight in fewer.parameters()]
