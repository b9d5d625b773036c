"""The defining equations of simclr, byol, dino, ibot and msn against slow and obvious versions, and their views."""

import math

import pytest
import torch
import torch.nn.functional as F

from method_parts import encoder, images, step
from openjepa.core.contracts import methods
from openjepa.core.types import Batch, Grid
from openjepa.masks.ibot_masks import Hidden, Hiding
from openjepa.methods.byol import BYOL
from openjepa.methods.dino import DINO, cross_view, warmed
from openjepa.methods.ibot import IBOT, at_hidden
from openjepa.methods.msn import MSN, sinkhorn
from openjepa.methods.simclr import SimCLR, nt_xent
from openjepa.models.heads import PrototypeOptions, information
from openjepa.models.multicrop import MultiCrop
from openjepa.nn.positions import sincos


def test_nt_xent_adds_both_directions_of_a_cross_entropy_among_all_other_views() -> None:
    first, second = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0)).unbind()
    views = [F.normalize(view, dim=0) for view in torch.cat([first, second])]
    losses = []
    for i, view in enumerate(views):
        partner = (i + 5) % 10
        scores = [math.exp((view @ other).item() / 0.3) for j, other in enumerate(views) if j != i]
        losses.append(-math.log(math.exp((view @ views[partner]).item() / 0.3) / sum(scores)))
    assert nt_xent(first, second, 0.3).item() == pytest.approx(sum(losses) / 5, rel=1e-5)


def test_simclrs_fine_tuning_starts_behind_the_first_layer_of_the_head() -> None:
    method = SimCLR(encoder("simclr")).eval()
    batch = images()
    expected = method.head[2](method.head[1](method.head[0](method.backbone.pool(batch))))
    torch.testing.assert_close(method.tuned_encoder(batch), expected)


def test_byol_is_the_squared_distance_of_unit_vectors_from_each_view_to_the_other() -> None:
    method = BYOL(encoder("byol"), hidden=8, output=4)
    views = (images(seed=1), images(seed=2))
    expected = torch.zeros(())
    for ours, other in (views, views[::-1]):
        predictions = method.predictor(method.projector(method.online.pool(ours)))
        targets = method.target_projector(method.target.pool(other))
        for predicted, target in zip(predictions, targets, strict=True):
            expected += (predicted / predicted.norm() - target / target.norm()).square().sum() / 4
    loss = method.training_step(Batch(views[0], torch.arange(4), views), step()).loss
    torch.testing.assert_close(loss, expected)


def test_dinos_pairs_are_all_but_a_view_with_itself() -> None:
    generator = torch.Generator().manual_seed(0)
    targets = torch.randn(2, 3, 5, generator=generator).softmax(dim=-1)
    scores = torch.randn(4, 3, 5, generator=generator)
    losses = [
        -(targets[t, b] * scores[v, b].log_softmax(dim=0)).sum()
        for t in range(2)
        for v in range(4)
        if t != v
        for b in range(3)
    ]
    torch.testing.assert_close(cross_view(targets, scores), torch.stack(losses).mean())


def test_dinos_teacher_is_centered_then_sharpened_and_the_center_follows_a_tenth() -> None:
    method = DINO(encoder("dino"), temperature_warmup=0.0, teacher_temperature=(0.04, 0.05))
    method.centre.mean.normal_(generator=torch.Generator().manual_seed(0))
    before = method.centre.mean.clone()
    views = (images(seed=1), images(seed=2))
    scores = [method.teacher_head(method.teacher.encode(view)[:, 0]).detach() for view in views]
    targets = method.teacher_choices(views, step())
    for view in range(2):
        expected = [((row - before) / 0.05).exp() / ((row - before) / 0.05).exp().sum() for row in scores[view]]
        torch.testing.assert_close(targets[view], torch.stack(expected), atol=1e-6, rtol=1e-4)
    method.after_update(step())
    torch.testing.assert_close(method.centre.mean, 0.9 * before + 0.1 * torch.cat(scores).mean(dim=0))


def test_information_is_zero_when_all_rows_are_alike_and_largest_when_each_is_different() -> None:
    one, all_alike = torch.tensor([1.0, 0, 0, 0]), torch.full((4,), 0.25)
    assert information(one.expand(3, 2, 4)).item() == information(all_alike.expand(3, 2, 4)).item() == 0
    assert information(torch.eye(4)).item() == pytest.approx(math.log(4))
    half = torch.tensor([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]])  # which half: one bit
    assert information(half).item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("is_unit", [True, False])
def test_prototype_scores_are_cosines_times_a_gain(is_unit: bool) -> None:
    head = PrototypeOptions(num_prototypes=5, is_unit=is_unit).build(encoder("dino"))
    if head.gains is not None:
        head.gains.data.copy_(torch.arange(1.0, 6.0))
    x = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))
    scores, vectors = head(x), head.mlp(x)
    for row in range(3):
        for index in range(5):
            cosine = F.cosine_similarity(vectors[row], head.directions[index], dim=0)
            torch.testing.assert_close(scores[row, index], cosine * (1 if is_unit else index + 1))
    head(x, is_frozen=True).sum().backward()
    assert not head.directions.grad.any() and head.mlp[0].weight.grad.any()


def test_the_teachers_temperature_warms_up_and_stays() -> None:
    assert [round(warmed(p, 0.5, (0.04, 0.08)), 3) for p in (0, 0.25, 0.5, 1)] == [0.04, 0.06, 0.08, 0.08]
    assert warmed(0.0, 0.0, (0.04, 0.08)) == 0.08


def test_ibots_teacher_has_a_center_for_class_tokens_and_one_for_patches() -> None:
    method = IBOT(encoder("ibot"), temperature_warmup=0.0, teacher_temperature=(0.04, 0.05))
    generator = torch.Generator().manual_seed(0)
    of_class = method.class_centre.mean.normal_(generator=generator)
    of_patches = method.patch_centre.mean.normal_(generator=generator)
    scores = method.teacher_head(method.teacher.encode(images())).detach()  # [4, 65, prototypes]
    hidden = torch.rand(2, 4, 64, generator=generator) < 0.3
    targets = method.teacher_choices((images(), images()), Hidden.of(hidden.flatten(0, 1)), step())
    torch.testing.assert_close(targets.of_class[0], ((scores[:, 0] - of_class) / 0.05).softmax(dim=-1))
    at_hidden_patches = torch.cat([scores[:, 1:][hidden[0]], scores[:, 1:][hidden[1]]])
    of_patches_only = targets.of_patches[: hidden.sum()]  # without padding
    torch.testing.assert_close(of_patches_only, ((at_hidden_patches - of_patches) / 0.05).softmax(dim=-1))
    before = of_patches.clone()
    method.after_update(step())
    torch.testing.assert_close(method.patch_centre.mean, 0.9 * before + 0.1 * scores[:, 1:].mean(dim=(0, 1)))


def test_ibots_patch_loss_averages_hidden_patches_image_by_image() -> None:
    generator = torch.Generator().manual_seed(0)
    targets = torch.randn(2, 3, 4, 5, generator=generator).softmax(dim=-1)
    scores = torch.randn(2, 3, 4, 5, generator=generator)
    hidden = torch.rand(2, 3, 4, generator=generator) < 0.4
    hidden[0, 0] = False
    total = 0.0
    for view in range(2):
        for row in range(3):
            errors = [
                -(targets[view, row, patch] * scores[view, row, patch].log_softmax(dim=0)).sum().item()
                for patch in hidden[view, row].nonzero().flatten().tolist()
            ]
            total += sum(errors) / len(errors) if errors else 0.0
    both = Hidden.of(hidden.flatten(0, 1))
    picked_targets, picked_scores = (both.pick(tensor.flatten(0, 1)) for tensor in (targets, scores))
    assert len(picked_scores) % 6 == 0, "padded, so that sizes repeat"
    assert at_hidden(picked_targets, picked_scores, both).item() == pytest.approx(total / 6, rel=1e-5)


def test_a_batch_in_which_nothing_is_hidden_has_no_patch_loss() -> None:
    nothing = Hidden.of(torch.zeros(6, 4, dtype=torch.bool))
    assert len(nothing.index) == 0 and at_hidden(torch.zeros(0, 5), torch.zeros(0, 5), nothing).item() == 0


def test_ibot_hides_nothing_in_half_of_the_images_and_a_tenth_to_a_half_in_the_others() -> None:
    hidden = Hiding().draw(400, Grid(14, 14), torch.Generator().manual_seed(0)).float().mean(dim=1)
    assert (hidden == 0).float().mean().item() == pytest.approx(0.5, abs=0.08)
    others = hidden[hidden > 0]
    assert others.min() >= 0.09 and others.max() <= 0.51 and others.mean().item() == pytest.approx(0.3, abs=0.03)


def test_msns_sinkhorn_uses_all_prototypes_equally() -> None:
    assignments = torch.randn(64, 8, generator=torch.Generator().manual_seed(0)).mul(3).softmax(dim=1)
    balanced = sinkhorn(assignments, 50)
    torch.testing.assert_close(balanced.sum(dim=1), torch.ones(64))
    torch.testing.assert_close(balanced.sum(dim=0), torch.full((8,), 8.0), atol=0.05, rtol=0)
    assert torch.equal(sinkhorn(assignments, 0), assignments)


def test_msns_sinkhorn_balances_prototypes_then_images_in_each_round() -> None:
    assignments = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).softmax(dim=1)
    expected = assignments.tolist()
    for _ in range(3):
        for index in range(4):
            used = sum(row[index] for row in expected)
            for row in expected:
                row[index] /= used
        expected = [[value / sum(row) for value in row] for row in expected]
    torch.testing.assert_close(sinkhorn(assignments, 3), torch.tensor(expected))


def test_msn_is_the_cross_entropy_of_predictions_minus_the_entropy_of_their_mean() -> None:
    method = MSN(encoder("msn"), num_prototypes=6, hidden=8, output=4, crops=MultiCrop(num_local=2))
    views = (images(seed=1), images(seed=2), images(side=12, seed=3), images(side=12, seed=4))
    targets, predictions = method.targets(views[0]), method.predict(views[1], views[2:], step())
    pairs = [-(targets[row] * predictions[view, row].log()).sum() for view in range(3) for row in range(4)]
    mean = torch.stack([predictions[view, row] for view in range(3) for row in range(4)]).mean(dim=0)
    entropy = -(mean * mean.log()).sum()
    loss = method.training_step(Batch(views[0], torch.arange(4), views), step()).loss
    torch.testing.assert_close(loss, torch.stack(pairs).mean() + math.log(6) - entropy)


def test_msns_sharpening_is_a_power_of_the_assignment() -> None:
    method = MSN(encoder("msn"), num_prototypes=6, hidden=8, output=4, sinkhorn_rounds=0).eval()
    vectors = method.target_head(method.target.encode(images())[:, 0])
    soft = method.assign(vectors, 0.1) ** (1 / 0.25)
    torch.testing.assert_close(method.targets(images()), soft / soft.sum(dim=1, keepdim=True), atol=1e-5, rtol=1e-4)


# (scale, jitter, blur, solarise) of each view; all have jitter with chance 0.8, grey 0.2 and a flip 0.5.
SMALL = (0.05, 0.4), (0.4, 0.4, 0.2, 0.1), 0.5, 0.0
VIEWS = {
    "simclr": [((0.08, 1), (0.8, 0.8, 0.8, 0.2), 0.5, 0.0)] * 2,
    "byol": [((0.08, 1), (0.4, 0.4, 0.2, 0.1), 1.0, 0.0), ((0.08, 1), (0.4, 0.4, 0.2, 0.1), 0.1, 0.2)],
    "dino": [((0.4, 1), (0.4, 0.4, 0.2, 0.1), 1.0, 0.0), ((0.4, 1), (0.4, 0.4, 0.2, 0.1), 0.1, 0.2), *[SMALL] * 8],
    "ibot": [
        ((0.25, 1), (0.4, 0.4, 0.2, 0.1), 1.0, 0.0),
        ((0.25, 1), (0.4, 0.4, 0.2, 0.1), 0.1, 0.2),
        *[((0.05, 0.25), (0.4, 0.4, 0.2, 0.1), 0.5, 0.0)] * 10,
    ],
    "msn": [
        *[((0.3, 1), (0.4, 0.4, 0.4, 0.1), 0.5, 0.0)] * 2,
        *[((0.05, 0.3), (0.4, 0.4, 0.4, 0.1), 0.5, 0.0)] * 10,
    ],
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_made_as_published(name: str) -> None:
    views = methods[name](encoder(name)).augmentations
    assert [(view.scale, view.jitter, view.blur_chance, view.solarise_chance) for view in views] == VIEWS[name]
    assert {(view.jitter_chance, view.grey_chance) for view in views} == {(0.8, 0.2)} and all(
        view.flip for view in views
    )


def test_small_crops_have_whole_patches_and_positions_that_span_the_grid() -> None:
    crops = MultiCrop(num_local=3).views(encoder("dino"))
    assert [view.size for view in crops] == [(32, 32), (32, 32), (12, 12), (12, 12), (12, 12)]
    whole, small = sincos(Grid(8, 8), 16), sincos(Grid(4, 4), 16, Grid(8, 8))
    mean = whole.unflatten(0, (8, 8))[:2, :2].flatten(0, 1).mean(dim=0)
    assert (small[0] - mean).abs().max() < 0.25, "the first of 4×4 positions is between the first four of 8×8"
