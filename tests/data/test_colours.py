"""Colour changes of views, against Pillow, colorsys, torch's convolution and plain arithmetic."""

import colorsys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image, ImageEnhance, ImageOps

from openjepa.core.types import Augmentation
from openjepa.data.crops import colours

IMAGES = torch.rand(4, 3, 12, 10, generator=torch.Generator().manual_seed(0))
ONE_STEP = 1.01 / 255  # Pillow rounds, and cuts, to whole values


def pillow(image: torch.Tensor) -> Image.Image:
    return Image.fromarray((255 * image).round().byte().permute(1, 2, 0).numpy())


def back(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255


def factors(**given: float) -> torch.Tensor:
    names = ("brightness", "contrast", "saturation", "hue")
    return torch.tensor([[given.get(name, 0.0) for name in names]])


@pytest.mark.parametrize(
    ("name", "enhance"),
    [("brightness", ImageEnhance.Brightness), ("contrast", ImageEnhance.Contrast), ("saturation", ImageEnhance.Color)],
)
@pytest.mark.parametrize("amount", [-0.7, -0.2, 0.6])
def test_jitter_is_what_pillow_does(name: str, enhance: type, amount: float) -> None:
    image = pillow(IMAGES[0])
    ours = colours.jittered(back(image)[None], factors(**{name: amount}), [0, 1, 2, 3])[0]
    theirs = back(enhance(image).enhance(1 + amount))
    assert (ours - theirs).abs().max() < 2 * ONE_STEP


@pytest.mark.parametrize("share", [-0.5, -0.1, 0.25, 0.5])
def test_hue_turns_as_in_colorsys(share: float) -> None:
    ours = colours.turned(IMAGES[:1], torch.tensor(share))[0]
    for row, column in ((0, 0), (3, 7), (11, 9)):
        hue, saturation, value = colorsys.rgb_to_hsv(*IMAGES[0, :, row, column].tolist())
        expected = colorsys.hsv_to_rgb((hue + share) % 1.0, saturation, value)
        assert ours[:, row, column].tolist() == pytest.approx(expected, abs=1e-5)


def test_grey_images_have_no_hue_to_turn() -> None:
    image = torch.full((1, 3, 4, 4), 0.3)
    assert torch.allclose(colours.turned(image, torch.tensor(0.3)), image)


def test_grey_is_pillows() -> None:
    image = pillow(IMAGES[1])
    theirs = torch.from_numpy(np.array(image.convert("L"))) / 255
    assert (colours.grey(back(image)[None])[0, 0] - theirs).abs().max() < ONE_STEP


def test_solarising_is_pillows() -> None:
    image = pillow(IMAGES[2])
    theirs = back(ImageOps.solarize(image, threshold=128))
    assert torch.allclose(colours.solarised(back(image)[None])[0], theirs, atol=1e-6)


@pytest.mark.parametrize("side", [12, 40])
def test_blur_is_a_mirrored_gaussian_convolution(side: int) -> None:
    images = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(1))
    sigma = torch.tensor([0.3, 1.7])
    radius = max(round(0.1 * side) // 2, 1)
    for row in range(2):
        offsets = torch.arange(-radius, radius + 1)
        kernel = (-0.5 * (offsets / sigma[row]) ** 2).exp()
        kernel = kernel / kernel.sum()
        padded = F.pad(images[row : row + 1], (radius,) * 4, mode="reflect")
        expected = F.conv2d(padded, (kernel[:, None] * kernel).expand(3, 1, -1, -1), groups=3)
        assert torch.allclose(colours.blurred(images, sigma)[row], expected[0], atol=1e-5)


def test_nothing_happens_by_no_chance_and_all_by_every_chance() -> None:
    draws = colours.draw(4, torch.Generator().manual_seed(2))
    still = Augmentation((12, 10), jitter=(0.4, 0.4, 0.4, 0.1), jitter_chance=0, grey_chance=0)
    assert torch.equal(colours.colours(IMAGES, draws, still), IMAGES)
    grey = Augmentation((12, 10), grey_chance=1)
    changed = colours.colours(IMAGES, draws, grey)
    assert torch.equal(changed[:, 0], changed[:, 1]) and torch.equal(changed[:, 1], changed[:, 2])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"jitter": (0.4, 0.3, 0.2, 0.1), "jitter_chance": 1}, "jittered"),
        ({"grey_chance": 1}, "grey"),
        ({"blur_chance": 1}, "blurred"),
        ({"solarise_chance": 1}, "solarised"),
    ],
)
def test_each_chance_is_that_of_its_own_change(given: dict[str, float], expected: str) -> None:
    draws = colours.draw(4, torch.Generator().manual_seed(2))
    view = Augmentation((12, 10), **{"jitter_chance": 0, "grey_chance": 0, **given})
    alone = {
        "jittered": lambda: colours.jittered(IMAGES, draws.factors * torch.tensor((0.4, 0.3, 0.2, 0.1)), draws.order),
        "grey": lambda: colours.grey(IMAGES).expand_as(IMAGES),
        "blurred": lambda: colours.blurred(IMAGES, 0.1 + 1.9 * draws.sigma),
        "solarised": lambda: colours.solarised(IMAGES),
    }
    changed = colours.colours(IMAGES, draws, view)
    torch.testing.assert_close(changed, alone[expected]())
    assert not torch.allclose(changed, IMAGES, atol=0.01)


@pytest.mark.parametrize(("name", "chance"), [("jitter", 0.8), ("grey", 0.2), ("blur", 0.3), ("solarise", 0.6)])
def test_a_change_happens_to_its_share_of_images(name: str, chance: float) -> None:
    images = torch.rand(2000, 3, 4, 4, generator=torch.Generator().manual_seed(3))
    given = {"jitter": (0.8, 0.8, 0.8, 0.2), "jitter_chance": 0, "grey_chance": 0, f"{name}_chance": chance}
    changed = colours.colours(
        images, colours.draw(2000, torch.Generator().manual_seed(4)), Augmentation((4, 4), **given)
    )
    is_changed = (changed - images).abs().amax(dim=(1, 2, 3)) > 1e-6
    assert is_changed.float().mean().item() == pytest.approx(chance, abs=0.03)


def test_chances_are_met_on_average_and_values_stay_in_range() -> None:
    images = torch.rand(2000, 3, 2, 2, generator=torch.Generator().manual_seed(3))
    view = Augmentation((2, 2), jitter=(0.8, 0.8, 0.8, 0.2), grey_chance=0.2, blur_chance=0.5, solarise_chance=0.2)
    changed = colours.colours(images, colours.draw(2000, torch.Generator().manual_seed(4)), view)
    is_grey = (changed[:, 0] - changed[:, 1]).abs().amax(dim=(1, 2)) < 1e-6
    assert is_grey.float().mean().item() == pytest.approx(0.2, abs=0.03)
    assert changed.min() >= 0 and changed.max() <= 1 + 1e-6


def test_a_row_does_not_depend_on_who_works_on_it() -> None:
    view = Augmentation((12, 10), jitter=(0.8, 0.8, 0.8, 0.2), blur_chance=0.5, solarise_chance=0.5)
    draws = colours.draw(4, torch.Generator().manual_seed(5))
    whole = colours.colours(IMAGES, draws, view)
    part = colours.colours(IMAGES[1:3], draws.take(slice(1, 3)), view)
    assert torch.allclose(whole[1:3], part, atol=1e-6) and not torch.allclose(part, IMAGES[1:3], atol=0.01)
