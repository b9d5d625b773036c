"""Multi-block, right by construction; the published sampling, with its quirks, against the tables of FACTS 1.8; the others."""

import pytest
import torch

from openjepa.core.errors import BadInput
from openjepa.core.types import Grid
from openjepa.masks.block import Block
from openjepa.masks.block_shapes import block_indices, block_maps, block_size
from openjepa.masks.multiblock import MultiBlock, scan_orders
from openjepa.masks.random import Random
from openjepa.masks.rasterized import Rasterized
from openjepa.masks.reference import Reference, correlated_size
from openjepa.masks.statistics import coverage, occupancy


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def chances(strategy, grid: Grid, batch_size: int, num_batches: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    """How often each patch is context, and target: two [gh, gw] maps."""
    context, target = torch.zeros(grid.size), torch.zeros(grid.size)
    for seed in range(num_batches):
        maps = occupancy(strategy(batch_size, grid, generator(seed)), grid)
        context, target = context + maps[0].float().mean(dim=0), target + maps[1].float().mean(dim=0)
    return (context / num_batches).unflatten(0, grid), (target / num_batches).unflatten(0, grid)


# --- blocks ---


def test_block_maps_and_indices_agree_on_a_hand_made_case() -> None:
    top, left = torch.tensor([1]), torch.tensor([0])
    indices = block_indices(top, left, block_size(Grid(3, 3), 4 / 9, 1.0), Grid(3, 3))
    maps = block_maps(top, left, torch.tensor(2), torch.tensor(2), Grid(3, 3))
    assert indices.tolist() == [[3, 4, 6, 7]]
    assert maps.long().tolist() == [[0, 0, 0, 1, 1, 0, 1, 1, 0]]


def test_block_sizes_stay_near_the_requested_share() -> None:
    for scale in (0.15, 0.175, 0.2):
        for aspect in (0.75, 1.0, 1.5):
            area = block_size(Grid(8, 8), scale, aspect).area / 64
            assert abs(area - scale) < 0.045


# --- multi-block ---


@pytest.mark.parametrize("grid", [Grid(14, 14), Grid(8, 8), Grid(6, 10)], ids=str)
@pytest.mark.parametrize("equalize", ["side", "subset", "pad"])
def test_every_patch_can_be_context_and_target(grid: Grid, equalize: str) -> None:
    context, target = chances(MultiBlock(equalize=equalize), grid, 64)
    assert context.min() > 0.02 and target.min() > 0.02


@pytest.mark.parametrize("equalize", ["side", "subset"])
def test_no_side_of_the_image_is_favoured(equalize: str) -> None:
    context, target = chances(MultiBlock(equalize=equalize), Grid(14, 14), 256)
    for chance in (context, target):
        assert torch.allclose(chance, chance.flip(0), atol=0.03)
        assert torch.allclose(chance, chance.flip(1), atol=0.03)


@pytest.mark.slow
def test_the_distribution_does_not_depend_on_the_batch_size() -> None:
    small, large = MultiBlock(), MultiBlock()
    context_small, target_small = chances(small, Grid(14, 14), 4, num_batches=4000)
    context_large, target_large = chances(large, Grid(14, 14), 512, num_batches=60)
    assert (context_small.mean() - context_large.mean()).abs() < 1e-3
    assert torch.allclose(context_small, context_large, atol=0.035)
    assert torch.allclose(target_small, target_large, atol=0.06)


def test_scale_and_aspect_are_drawn_independently() -> None:
    """In the published sampler small blocks are wide and large ones tall, 5 shapes in all on 14×14."""
    shapes = set()
    for seed in range(300):
        targets = MultiBlock()(1, Grid(14, 14), generator(seed)).targets[0, 0]
        rows, columns = targets // 14, targets % 14
        shapes.add((int(rows.max() - rows.min()) + 1, int(columns.max() - columns.min()) + 1))
    assert len(shapes) >= 9
    for area in (min(h * w for h, w in shapes), max(h * w for h, w in shapes)):
        near = [(h, w) for h, w in shapes if abs(h * w - area) <= 2]
        assert any(h > w for h, w in near) and any(h < w for h, w in near)


def test_the_context_block_really_varies() -> None:
    masks = MultiBlock(num_targets=1, target_scale=(0.02, 0.02), equalize="pad")(200, Grid(14, 14), generator())
    context, _ = occupancy(masks, Grid(14, 14))
    corners = context.unflatten(1, (14, 14))[:, [0, 0, 13, 13], [0, 13, 0, 13]].float().mean(dim=0)
    assert ((corners > 0.3) & (corners < 0.99)).all()


def test_a_context_has_the_requested_share() -> None:
    assert MultiBlock(context_share=0.25)(32, Grid(14, 14), generator()).context.shape[1] == 49
    assert MultiBlock(context_share=0.1, equalize="subset")(32, Grid(14, 14), generator()).context.shape[1] == 20


def test_a_side_cut_leaves_the_first_patches_of_one_scan() -> None:
    """An independent check: the chosen patches are the first free ones of one of the eight scans."""
    grid = Grid(8, 8)
    full = MultiBlock(equalize="pad", context_scale=(1.0, 1.0))
    cut = MultiBlock(equalize="side", context_scale=(1.0, 1.0))
    context = cut(16, grid, generator(5))
    everything, _ = occupancy(full(16, grid, generator(5)), grid)
    for image in range(16):
        chosen = set(context.context[image].tolist())
        scans = [[p for p in scan.tolist() if everything[image, p]][: len(chosen)] for scan in scan_orders(grid)]
        assert any(chosen == set(scan) for scan in scans)


def test_scans_are_the_eight_walks_over_a_hand_made_grid() -> None:
    walks = {tuple(walk) for walk in scan_orders(Grid(2, 2)).tolist()}
    assert walks == {
        (0, 1, 2, 3),
        (2, 3, 0, 1),
        (1, 0, 3, 2),
        (3, 2, 1, 0),
        (0, 2, 1, 3),
        (2, 0, 3, 1),
        (1, 3, 0, 2),
        (3, 1, 2, 0),
    }


def test_padding_keeps_every_free_patch() -> None:
    grid = Grid(14, 14)
    masks = MultiBlock(equalize="pad", context_scale=(1.0, 1.0))(32, grid, generator())
    context, target = occupancy(masks, grid)
    assert torch.equal(context, ~target)


@pytest.mark.parametrize("side", [1, 3])
def test_a_grid_that_is_too_small_is_refused_with_a_setting_that_works(side: int) -> None:
    strategy = MultiBlock(target_scale=(0.6, 0.6), context_share=0.5)
    with pytest.raises(BadInput, match="grid cannot hold.*(use context_share=|use a larger image)"):
        strategy(4, Grid(side, side), generator())


def test_the_setting_that_the_error_names_works() -> None:
    with pytest.raises(BadInput, match="use context_share=0") as error:
        MultiBlock(context_share=0.9)(4, Grid(8, 8), generator())
    share = float(str(error.value).split("context_share=")[1].split()[0])
    for seed in range(200):
        MultiBlock(context_share=share)(4, Grid(8, 8), generator(seed))


def test_options_that_do_not_fit_every_draw_are_refused_at_the_first() -> None:
    """A run must not die at step 154 because only then a block is drawn that is too large."""
    for seed in range(20):
        with pytest.raises(BadInput, match="grid cannot hold"):
            MultiBlock(target_scale=(0.2, 0.6), context_share=0.3)(4, Grid(14, 14), generator(seed))


def test_crowded_settings_end_and_still_leave_the_context_its_share() -> None:
    crowded = MultiBlock(num_targets=40, target_scale=(0.3, 0.3), context_share=0.4)
    masks = crowded(64, Grid(8, 8), generator())
    context, target = occupancy(masks, Grid(8, 8))
    assert not (context & target).any() and masks.context.shape == (64, 26)


@pytest.mark.parametrize(
    "options",
    [{"target_scale": (0.3, 0.1)}, {"context_scale": (0.0, 0.5)}, {"num_targets": 0}, {"context_share": 1.5}],
    ids=str,
)
def test_impossible_options_are_refused(options: dict) -> None:
    with pytest.raises(BadInput, match=next(iter(options))):
        MultiBlock(**options)


# --- the published sampling ---

# FACTS 1.8: context share after the cut to the batch minimum, by batch size.
SHARES = {
    (8, 16): 0.225,
    (8, 64): 0.198,
    (12, 16): 0.287,
    (12, 128): 0.238,
    (14, 16): 0.305,
    (14, 64): 0.265,
    (14, 128): 0.260,
    (14, 256): 0.248,
    (16, 64): 0.283,
}


@pytest.mark.parametrize(("side", "batch_size"), SHARES)
def test_reference_context_share_depends_on_the_batch_as_published(side: int, batch_size: int) -> None:
    strategy = Reference(min_keep=4 if side == 8 else 10)
    counts = coverage(strategy, Grid(side, side), batch_size=batch_size, num_batches=120, generator=generator())
    assert counts.context_share == pytest.approx(SHARES[side, batch_size], abs=0.012)


def test_reference_rows_are_used_as_published() -> None:
    """FACTS 1.8: batch 128 on 14×14, from 0.75 in row 0 to 0.18 in row 7, 0.016 in row 12 and never in row 13."""
    counts = coverage(Reference(), Grid(14, 14), batch_size=128, num_batches=150, generator=generator())
    assert counts.context_rows[0] == pytest.approx(0.75, abs=0.04)
    assert counts.context_rows[7] == pytest.approx(0.18, abs=0.04)
    assert counts.context_rows[12] == pytest.approx(0.016, abs=0.015)
    assert counts.context_rows[13] == counts.context_columns[13] == 0
    assert counts.target_rows[13] == counts.target_columns[13] == 0
    assert counts.target_share == pytest.approx(0.445, abs=0.02)


# FACTS 1.8: target sizes and how many batches have them, in percent.
SIZES = {
    8: {(3, 3): 48.5, (4, 3): 51.5},
    12: {(4, 5): 19, (5, 5): 42, (6, 4): 26, (6, 5): 13},
    14: {(5, 6): 26.5, (6, 5): 12.6, (6, 6): 21.8, (7, 5): 36.4, (8, 5): 2.6},
    16: {(5, 7): 4.7, (6, 6): 1.6, (6, 7): 27.9, (7, 6): 28.9, (8, 6): 29.6, (9, 6): 7.3},
}


@pytest.mark.parametrize("side", SIZES)
def test_reference_block_sizes_are_as_published(side: int) -> None:
    draws, source = 6000, generator()
    counts: dict[tuple[int, int], int] = {}
    for _ in range(draws):
        size = tuple(correlated_size(Grid(side, side), (0.15, 0.2), (0.75, 1.5), source))
        counts[size] = counts.get(size, 0) + 1
    shares = {size: 100 * number / draws for size, number in counts.items()}
    assert shares.keys() == SIZES[side].keys()
    for size, share in SIZES[side].items():
        assert shares[size] == pytest.approx(share, abs=2)


def test_reference_refuses_where_the_published_code_loops_for_ever() -> None:
    with pytest.raises(BadInput, match="use min_keep=8"):
        Reference()(4, Grid(8, 8), generator())
    Reference(min_keep=8)(4, Grid(8, 8), generator())


def test_reference_drops_constraints_when_targets_leave_no_context() -> None:
    """With 40 targets nothing is left; the published code then lets the context see some of them."""
    masks = Reference(num_targets=40)(8, Grid(14, 14), generator())
    assert masks.context.shape[1] > 10


# --- the others ---


def test_random_splits_the_patches_in_two() -> None:
    masks = Random(target_scale=0.6)(8, Grid(5, 4), generator())
    together = torch.cat([masks.context, masks.targets[:, 0]], dim=1).sort(dim=1).values
    assert torch.equal(together, torch.arange(20).expand(8, -1))
    assert masks.targets.shape == (8, 1, 12)


def test_block_is_one_block_and_its_complement() -> None:
    masks = Block()(8, Grid(14, 14), generator())
    context, target = occupancy(masks, Grid(14, 14))
    assert torch.equal(context, ~target)
    rows = target.unflatten(1, (14, 14)).any(dim=2).sum(dim=1)
    columns = target.unflatten(1, (14, 14)).any(dim=1).sum(dim=1)
    assert torch.equal(rows * columns, target.sum(dim=1))
    assert target.float().mean() == pytest.approx(0.6, abs=0.05)


def test_rasterized_quadrants_on_a_hand_made_grid() -> None:
    masks = Rasterized()(50, Grid(2, 4), generator())
    quadrants = {(0, 1), (2, 3), (4, 5), (6, 7)}
    for context, targets in zip(masks.context, masks.targets, strict=True):
        assert {tuple(context.tolist()), *(tuple(t.tolist()) for t in targets)} == quadrants
    assert len({tuple(row) for row in masks.context.tolist()}) == 4


@pytest.mark.parametrize(
    ("strategy", "grid"),
    [(Rasterized(), Grid(7, 8)), (Random(target_scale=0.01), Grid(2, 2)), (Block(target_scale=0.95), Grid(2, 2))],
)
def test_grids_that_do_not_fit_are_refused(strategy, grid: Grid) -> None:
    with pytest.raises(BadInput, match="use|choose"):
        strategy(4, grid, generator())
