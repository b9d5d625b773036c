"""RandAugment: every operation against a formula written down independently of Pillow."""

import numpy as np
import pytest
import torch
from PIL import Image

from openjepa.core.errors import BadInput
from openjepa.data.crops.randaugment import FILL, OPERATIONS, RandAugment

GREY = np.array([0.299, 0.587, 0.114])  # ITU-R 601, what Pillow calls L


def noise(height: int = 12, width: int = 20) -> np.ndarray:
    """[h, w, 3] uint8"""
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def apply(name: str, pixels: np.ndarray, level: float, sign: int = 1) -> np.ndarray:
    """[h, w, 3] uint8 -> [h, w, 3] int, so that differences do not wrap."""
    return np.asarray(OPERATIONS[name](Image.fromarray(pixels), level, sign)).astype(int)


def batch(number: int = 6) -> torch.Tensor:
    return torch.randint(256, (number, 3, 16, 16), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def blended(start: np.ndarray, end: np.ndarray, factor: float) -> np.ndarray:
    return np.clip(start * (1 - factor) + end * factor, 0, 255)


def test_there_are_the_fifteen_published_operations() -> None:
    assert len(OPERATIONS) == 15 and FILL == (124, 116, 104)


def test_invert_is_the_distance_from_white() -> None:
    assert (apply("Invert", noise(), 0.9) == 255 - noise().astype(int)).all()


def test_auto_contrast_stretches_every_channel_to_the_full_range() -> None:
    pixels = noise() // 4 + np.array([10, 60, 120], dtype=np.uint8)
    low, high = pixels.min(axis=(0, 1)), pixels.max(axis=(0, 1))
    expected = (pixels.astype(float) - low) * 255 / (high.astype(float) - low)
    assert np.abs(apply("AutoContrast", pixels, 0.9) - expected).max() <= 1


def test_equalize_spreads_equally_frequent_values_evenly() -> None:
    pixels = np.repeat(np.array([3, 50, 60, 61], dtype=np.uint8), 768).reshape(32, 32, 3)
    expected = np.repeat(np.array([0, 85, 170, 255]), 768).reshape(32, 32, 3)
    assert np.abs(apply("Equalize", pixels, 0.9) - expected).max() <= 1


@pytest.mark.parametrize(("level", "mask"), [(0.0, 0xF0), (0.3, 0xE0), (0.6, 0xC0), (0.9, 0x80), (1.0, 0x80)])
def test_posterize_keeps_the_leading_bits_and_always_one(level: float, mask: int) -> None:
    assert (apply("Posterize", noise(), level) == (noise() & mask)).all()


@pytest.mark.parametrize(("level", "threshold"), [(0.0, 256), (0.5, 128), (0.9, 26), (1.0, 0)])
def test_solarize_inverts_from_the_threshold_on(level: float, threshold: int) -> None:
    pixels = noise().astype(int)
    assert (apply("Solarize", noise(), level) == np.where(pixels < threshold, pixels, 255 - pixels)).all()


@pytest.mark.parametrize(("level", "added"), [(0.0, 0), (0.9, 99), (1.0, 110)])
def test_solarize_add_brightens_the_dark_half_only(level: float, added: int) -> None:
    pixels = noise().astype(int)
    assert (apply("SolarizeAdd", noise(), level) == np.where(pixels < 128, pixels + added, pixels)).all()


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
def test_colour_contrast_and_brightness_blend_with_grey_the_mean_and_black(level: float, sign: int) -> None:
    pixels, factor = noise().astype(float), 1 + sign * 0.9 * level
    grey = np.round(pixels @ GREY)
    starts = {"Color": grey[..., None], "Contrast": np.round(grey.mean()), "Brightness": np.zeros(1)}
    for name, start in starts.items():
        assert np.abs(apply(name, noise(), level, sign) - blended(start, pixels, factor)).max() <= 2, name


@pytest.mark.parametrize("sign", [-1, 1])
def test_sharpness_blends_with_a_smoothed_image(sign: int) -> None:
    pixels = noise().astype(float)
    windows = np.lib.stride_tricks.sliding_window_view(pixels, (3, 3), axis=(0, 1))
    smooth = (windows.sum(axis=(-2, -1)) + 4 * pixels[1:-1, 1:-1]) / 13  # the edge has no neighbours and stays
    augmented = apply("Sharpness", noise(), 0.9, sign)
    assert np.abs(augmented[1:-1, 1:-1] - blended(smooth, pixels[1:-1, 1:-1], 1 + sign * 0.81)).max() <= 2
    assert (augmented[0] == pixels[0]).all()


@pytest.mark.parametrize(("name", "axis"), [("TranslateX", 1), ("TranslateY", 0)])
def test_translation_moves_by_whole_pixels_and_fills_what_is_bare(name: str, axis: int) -> None:
    pixels = np.moveaxis(noise(20, 20), axis, 0)  # 0.45 of 20 pixels are 9
    forwards, backwards = (np.moveaxis(apply(name, noise(20, 20), 1.0, sign), axis, 0) for sign in (1, -1))
    assert (forwards[:-9] == pixels[9:]).all() and (forwards[-9:] == FILL).all()
    assert (backwards[9:] == pixels[:-9]).all() and (backwards[:9] == FILL).all()


@pytest.mark.parametrize(("name", "axis"), [("ShearX", 1), ("ShearY", 0)])
def test_shear_moves_every_line_by_its_distance_from_the_corner(name: str, axis: int) -> None:
    ramp = np.arange(0, 240, 10, dtype=np.uint8)  # 24 pixels: reading d pixels further on adds 10·d
    pixels = np.repeat(np.repeat(ramp[:, None, None], 24, axis=1), 3, axis=2)  # rises along axis 0
    augmented = np.moveaxis(apply(name, np.ascontiguousarray(np.moveaxis(pixels, 0, axis)), 1.0), axis, 0)
    distance = 0.3 * (np.arange(24) + 0.5)[None, :, None]
    assert np.abs(augmented[:14] - (pixels[:14] + 10 * distance)).max() <= 1
    assert (augmented[-1, 5:] == FILL).all()


def test_rotation_turns_by_thirty_degrees_at_most_and_not_at_all_at_level_zero() -> None:
    assert (apply("Rotate", noise(), 0.0) == noise()).all()
    pixels = np.zeros((41, 41, 3), dtype=np.uint8)
    pixels[20, 36] = 255  # 16 to the right of the centre
    row, column = np.unravel_index(apply("Rotate", pixels, 1.0)[..., 0].argmax(), (41, 41))
    # counter-clockwise, and rows count downwards; a corner's fill is duller than the dot's blend of 255
    assert abs(row - (20 - 16 * np.sin(np.pi / 6))) <= 1 and abs(column - (20 + 16 * np.cos(np.pi / 6))) <= 1


def test_level_zero_changes_nothing_where_there_is_a_level() -> None:
    for name in set(OPERATIONS) - {"AutoContrast", "Equalize", "Invert", "Posterize"}:
        assert (apply(name, noise(), 0.0) == noise()).all(), name


def test_same_generator_same_result_and_another_another() -> None:
    augment = RandAugment()
    first, again, other = (augment(batch(), generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert first.dtype == torch.uint8 and first.shape == batch().shape


def test_probability_zero_leaves_images_untouched() -> None:
    images = batch()
    assert torch.equal(RandAugment(probability=0.0)(images, generator()), images)


def test_operations_are_applied_in_the_order_drawn() -> None:
    augment = RandAugment(num_operations=3, probability=1.0)
    draws, names = augment.draw(6, generator()), list(OPERATIONS)
    for row, (pixels, augmented) in enumerate(zip(batch(), augment(batch(), generator()), strict=True)):
        image = Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())
        for column in range(3):
            level, sign = draws.level[row, column].item(), int(draws.sign[row, column])
            image = OPERATIONS[names[draws.operation[row, column]]](image, level, sign)
        assert (np.asarray(image) == augmented.permute(1, 2, 0).numpy()).all()


def test_draws_have_the_published_distribution() -> None:
    draws = RandAugment().draw(20_000, generator())
    magnitude = 10 * draws.level
    assert magnitude.mean().item() == pytest.approx(9, abs=0.02) and magnitude.max() == 10
    # clipping moves what lies above 10, two standard deviations away, onto 10
    assert (magnitude == 10).float().mean().item() == pytest.approx(0.0228, abs=0.005)
    assert (magnitude < 8.5).float().mean().item() == pytest.approx(0.1587, abs=0.01)
    assert draws.is_applied.float().mean().item() == pytest.approx(0.5, abs=0.01)
    assert draws.sign.float().mean().item() == pytest.approx(0, abs=0.02) and draws.sign.abs().min() == 1
    shares = torch.bincount(draws.operation.flatten(), minlength=15) / draws.operation.numel()
    assert torch.allclose(shares, torch.full((15,), 1 / 15), atol=0.006)
    is_repeated = draws.operation[:, 0] == draws.operation[:, 1]  # with replacement
    assert is_repeated.float().mean().item() == pytest.approx(1 / 15, abs=0.006)


def test_impossible_strengths_are_refused() -> None:
    with pytest.raises(BadInput, match="magnitude is 11"):
        RandAugment(magnitude=11)
    with pytest.raises(BadInput, match="probability is 1.5"):
        RandAugment(probability=1.5)
