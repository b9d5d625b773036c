"""Figures show what they say: their numbers against hand-made cases, scikit-learn and the encoder itself."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from sklearn.decomposition import PCA
from torch import Tensor

from openjepa.core.types import Grid, Masks
from openjepa.masks.multiblock import MultiBlock
from openjepa.masks.statistics import coverage
from openjepa.models.vit import VisionTransformer
from openjepa.nn.patches import patchify, pick
from openjepa.report.figures import (
    attention,
    curves,
    imagination,
    masks,
    nearest_patches,
    neighbours,
    panels,
    pca,
    predictions,
)
from openjepa.report.figures.predictions import PredictiveModel

GRID = Grid(8, 8)
SIDE = 4  # pixels of a patch


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def panel_image(axes: Axes, layer: int = 0) -> Tensor:
    return torch.as_tensor(np.asarray(axes.images[layer].get_array()))


# Images and masks


def test_rgb_undoes_the_normalisation() -> None:
    raw = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    normalised = (raw / 255 - mean[:, None, None]) / std[:, None, None]
    torch.testing.assert_close(panels.rgb(normalised), raw.permute(0, 2, 3, 1) / 255)
    torch.testing.assert_close(panels.rgb(raw), raw.permute(0, 2, 3, 1) / 255)


def test_large_images_are_shrunk_to_what_a_panel_shows() -> None:
    assert panels.rgb(noise(1, 3, 224, 320)).shape == (1, 112, 160, 3)


def test_only_context_and_targets_are_opaque_and_only_targets_are_tinted() -> None:
    blocks = Masks(torch.tensor([[0, 1]]), torch.tensor([[[10, 11], [11, 12]]]))
    images = torch.full((1, 3, 32, 32), 128, dtype=torch.uint8)
    figure = masks.figure(images, blocks, GRID)
    shown = panel_image(figure.axes[1])[::SIDE, ::SIDE].flatten(0, 1)  # [N, 4], one pixel of each patch
    used = torch.zeros(64, dtype=torch.bool)
    used[[0, 1, 10, 11, 12]] = True
    assert (shown[used, 3] == 1).all()
    torch.testing.assert_close(shown[~used, 3], torch.full((59,), masks.DIMMED))
    grey = torch.tensor(128 / 255)
    torch.testing.assert_close(shown[[0, 1], :3], grey.expand(2, 3))
    tint = torch.tensor(to_rgb(masks.TINTS[0]))
    torch.testing.assert_close(shown[10, :3], grey * (1 - masks.TINT) + tint * masks.TINT)
    assert not torch.allclose(shown[12, :3], shown[10, :3])  # the second block has a colour of its own


def test_the_outline_of_an_l_shape_has_its_perimeter() -> None:
    inside = torch.zeros(4, 4, dtype=torch.bool)
    inside[1, 1] = inside[2, 1] = inside[2, 2] = True
    _, axes = panels.sheet(1, 1)
    panels.outline(axes[0][0], inside, torch.zeros(4, 4, 3), colour="red")
    edges = {tuple(map(tuple, np.sort(line.get_xydata(), axis=0))) for line in axes[0][0].lines}
    assert len(edges) == 8
    assert ((1.0, 1.0), (2.0, 1.0)) in edges and ((1.0, 2.0), (2.0, 2.0)) not in edges


def test_the_coverage_figure_draws_the_counted_chances() -> None:
    counted = coverage(MultiBlock(), GRID, batch_size=8, num_batches=4, generator=torch.Generator().manual_seed(0))
    rows, columns = masks.coverage_figure(counted).axes
    assert [list(line.get_ydata()) for line in rows.lines] == [counted.context_rows, counted.target_rows]
    assert [list(line.get_ydata()) for line in columns.lines] == [counted.context_columns, counted.target_columns]


def test_the_inspector_holds_examples_and_chances() -> None:
    generator = torch.Generator().manual_seed(0)
    counted = coverage(MultiBlock(), GRID, batch_size=8, num_batches=4, generator=generator)
    images = torch.zeros(3, 3, 32, 32, dtype=torch.uint8)
    figure = masks.inspector(images, MultiBlock()(3, GRID, generator), GRID, counted)
    assert len(figure.axes) == 2 * 3 + 2


# Attention


def test_each_attention_panel_shows_the_row_of_its_query(tiny_encoder: VisionTransformer) -> None:
    images, queries = noise(2, 3, 32, 32), torch.tensor([[5], [60]])
    weights = tiny_encoder.attention(images)  # [2, 2, 64, 64]
    figure = attention.figure(images, weights, queries, GRID)
    assert len(figure.axes) == 2 * (1 + 2)
    second_image_first_head = panel_image(figure.axes[4], layer=1)
    row = weights[1, 0, 60].unflatten(0, GRID)
    torch.testing.assert_close(second_image_first_head, attention.heat_colours(row))
    brightest = int(second_image_first_head[..., 3].argmax())
    assert brightest == int(row.argmax())


def test_even_attention_looks_dark_and_a_single_patch_bright() -> None:
    even, single = torch.full((8, 8), 1 / 64), torch.zeros(8, 8)
    single[2, 3] = 1.0
    assert attention.heat_colours(even)[..., 3].max() < 0.5
    assert attention.heat_colours(single)[2, 3, 3] == pytest.approx(attention.STRONGEST)


def test_queries_are_the_busiest_and_the_plainest_patch() -> None:
    images = noise(1, 3, 32, 32) * 0.1
    images[:, :, 8:12, 4:8] *= 50  # row 2, column 1
    images[:, :, 28:32, 28:32] = 0.3
    assert attention.busy_and_plain(images, SIDE).tolist() == [[17, 63]]


# PCA


def test_components_are_those_of_scikit_learn_up_to_sign() -> None:
    tokens = noise(4, 9, 6) * torch.tensor([5.0, 3.0, 2.0, 1.0, 0.5, 0.1])
    ours = pca.components(tokens).flatten(0, 1)
    theirs = torch.from_numpy(PCA(3).fit_transform(tokens.flatten(0, 1).numpy())).float()
    torch.testing.assert_close(ours * (ours * theirs).sum(dim=0).sign(), theirs, atol=1e-4, rtol=1e-4)


def test_colours_do_not_depend_on_the_sign_of_a_direction() -> None:
    tokens = noise(4, 9, 6) * torch.tensor([5.0, 3.0, 2.0, 1.0, 0.5, 0.1])
    again = torch.cat([tokens, tokens])  # the same axes; the solver may return them flipped
    torch.testing.assert_close(pca.components(again)[:4], pca.components(tokens), atol=1e-3, rtol=1e-3)


def test_tokens_that_encode_only_the_position_vanish_without_positions() -> None:
    positions = noise(9, 6)
    tokens = positions.expand(4, -1, -1)
    assert pca.without_positions(tokens, tokens.mean(dim=0)).abs().max() < 1e-6


def test_the_pca_figure_has_a_row_for_each_set_of_tokens() -> None:
    figure = pca.figure(noise(3, 3, 32, 32), {"a": noise(3, 64, 8), "b": noise(3, 64, 8)}, GRID)
    assert len(figure.axes) == 3 * 3


# Predictions


def tokens_of(images: Tensor) -> Tensor:
    """[B, 3, h, w] -> [B, N, 48]: a hand-made target encoder, the pixels of each patch."""
    return patchify(images, SIDE)


def hand_made_targets(images: Tensor, masks: Masks) -> Tensor:
    return pick(tokens_of(images), masks.targets)


def shifted(images: Tensor, masks: Masks) -> Tensor:
    return hand_made_targets(images, masks) + 10


class MeanOfPosition:
    def __init__(self, means: Tensor) -> None:
        self.means = means

    def __call__(self, images: Tensor, masks: Masks) -> Tensor:
        return self.means[masks.targets]


def skill_of(predict: object, images: Tensor, means: Tensor, distance: predictions.Distance) -> predictions.Skill:
    model = PredictiveModel(GRID, MultiBlock(), predict, hand_made_targets, distance)  # type: ignore[arg-type]
    return predictions.prediction_skill(model, images, means, num_draws=40, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("distance", [F.mse_loss, F.smooth_l1_loss])
def test_skill_is_one_when_perfect_zero_for_the_mean_of_the_position_and_negative_beyond(
    distance: predictions.Distance,
) -> None:
    images = noise(6, 3, 32, 32)
    means = tokens_of(images).mean(dim=0)
    perfect = skill_of(hand_made_targets, images, means, distance)
    mean = skill_of(MeanOfPosition(means), images, means, distance)
    assert perfect.by_patch.shape == (6, 64) and not perfect.by_patch.isnan().any()
    assert (perfect.by_patch == 1).all() and perfect.overall == 1
    assert mean.by_patch.abs().max() < 1e-6 and mean.overall == pytest.approx(0, abs=1e-6)
    assert skill_of(shifted, images, means, distance).by_patch.max() < 0


@pytest.mark.parametrize("distance", [F.mse_loss, F.smooth_l1_loss])
def test_errors_of_single_patches_are_those_of_the_loss(distance: predictions.Distance) -> None:
    model = PredictiveModel(GRID, MultiBlock(), hand_made_targets, hand_made_targets, distance)
    ours, theirs = noise(2, 3, 4, 5), noise(2, 3, 4, 5, seed=1)
    expected = distance(ours, theirs, reduction="none").mean(dim=3)  # type: ignore[call-arg]
    torch.testing.assert_close(model.errors(ours, theirs), expected)


def test_a_patch_that_never_was_a_target_has_no_skill() -> None:
    images = noise(2, 3, 32, 32)
    model = PredictiveModel(GRID, MultiBlock(), hand_made_targets, hand_made_targets, F.mse_loss)
    means = tokens_of(images).mean(dim=0)
    skill = predictions.prediction_skill(model, images, means, num_draws=1, generator=torch.Generator().manual_seed(0))
    masks = MultiBlock()(2, GRID, torch.Generator().manual_seed(0))
    for row, targets in zip(skill.by_patch, masks.targets, strict=True):
        assert set(row.isfinite().nonzero().flatten().tolist()) == set(targets.flatten().tolist())
    assert skill.overall == 1
    predictions.figure(images, skill, GRID)


def test_position_means_are_the_means_of_the_drawn_targets() -> None:
    images = noise(5, 3, 32, 32)
    model = PredictiveModel(GRID, MultiBlock(), hand_made_targets, hand_made_targets, F.mse_loss)
    means = predictions.position_means(model, images, num_draws=3, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(0)
    seen: dict[int, list[Tensor]] = {}
    for _ in range(3):
        masks = MultiBlock()(5, GRID, generator)
        for image, targets in zip(tokens_of(images), masks.targets, strict=True):
            for patch in targets.flatten().tolist():
                seen.setdefault(patch, []).append(image[patch])
    for patch in range(64):
        expected = torch.stack(seen[patch]).mean(dim=0) if patch in seen else torch.full((48,), torch.nan)
        torch.testing.assert_close(means[patch], expected, equal_nan=True)


# Imagination


def test_overlapping_blocks_are_averaged_on_the_grid() -> None:
    blocks = Masks(torch.zeros(1, 0, dtype=torch.long), torch.tensor([[[0, 1], [1, 2]]]))
    values = torch.tensor([[[[1.0], [2.0]], [[4.0], [5.0]]]])  # [1, 2, 2, 1]
    expected = torch.tensor([[[1.0], [3.0], [5.0], [torch.nan]]])
    torch.testing.assert_close(nearest_patches.on_grid(values, blocks, 4), expected, equal_nan=True)


def test_a_perfect_predictor_imagines_the_image_when_the_pool_holds_it() -> None:
    images, others = noise(2, 3, 32, 32), noise(3, 3, 32, 32, seed=1)
    model = PredictiveModel(GRID, MultiBlock(), hand_made_targets, hand_made_targets, F.mse_loss)
    pool = nearest_patches.encode_pool(model, torch.cat([others, images]))
    imagined = imagination.imagine(model, images, pool, generator=torch.Generator().manual_seed(0), k=2)
    assert torch.equal(imagination.collage(imagined, imagined.predicted), images)
    is_target = imagined.predicted[..., 0] >= 0
    own = (3 + torch.arange(2))[:, None] * 64 + torch.arange(64)  # the images come after the three others
    assert torch.equal(imagined.predicted[..., 0][is_target], own[is_target])


def test_only_target_patches_are_replaced() -> None:
    images, others = noise(2, 3, 32, 32), noise(3, 3, 32, 32, seed=1)
    model = PredictiveModel(GRID, MultiBlock(), hand_made_targets, hand_made_targets, F.mse_loss)
    pool = nearest_patches.encode_pool(model, others)
    imagined = imagination.imagine(model, images, pool, generator=torch.Generator().manual_seed(0))
    is_changed = (tokens_of(imagination.collage(imagined, imagined.predicted)) != tokens_of(images)).any(dim=2)
    for changed, targets in zip(is_changed, imagined.masks.targets, strict=True):
        assert set(changed.nonzero().flatten().tolist()) == set(targets.flatten().tolist())
    assert len(imagination.figure(imagined).axes) == 4 * 2
    assert len(imagination.patches_figure(imagined).axes) == 2 * (2 + 6)


def test_a_window_is_the_patch_with_its_surroundings() -> None:
    image = noise(3, 32, 32)
    view = imagination.window(image, patch=9, grid=GRID)  # row 1, column 1
    assert torch.equal(view, image[:, 0:12, 0:12])
    corner = imagination.window(image, patch=0, grid=GRID)
    assert torch.equal(corner[:, SIDE:, SIDE:], image[:, :8, :8])


# Neighbours and curves


def test_nearest_neighbours_are_sorted_by_cosine_and_never_contain_the_query() -> None:
    angles = torch.tensor([0.0, 0.1, 0.3, 3.0])
    vectors = torch.stack([angles.cos(), angles.sin()], dim=1) * torch.tensor([[1.0], [9.0], [2.0], [5.0]])
    assert neighbours.nearest(vectors, torch.tensor([0, 2]), k=3).tolist() == [[1, 2, 3], [1, 0, 3]]
    figure = neighbours.figure(noise(4, 3, 8, 8), torch.tensor([0, 2]), torch.tensor([[1, 2], [1, 0]]))
    assert len(figure.axes) == 2 * 3


def test_curves_show_every_metric_known_ones_first() -> None:
    rows = [
        {"step": 1, "wall": 0.1, "my/own": 3.0, "train/loss": 0.5},
        {"step": 2, "wall": 0.2, "collapse/rankme": 7.0},
        {"step": 3, "wall": 0.3, "train/loss": 0.4},
    ]
    figure = curves.figure(rows)
    assert curves.shown(rows) == ["train/loss", "collapse/rankme", "my/own"]
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Loss", "Directions in use (RankMe)", "my/own"]
    assert figure.axes[0].lines[0].get_xydata().tolist() == [[1, 0.5], [3, 0.4]]
