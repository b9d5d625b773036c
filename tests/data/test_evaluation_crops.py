"""What an encoder sees in an evaluation, against Pillow and against the crops of training."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from openjepa.data import splits
from openjepa.data.batches.from_arrays import Pictures, Raw
from openjepa.data.crops import batched
from openjepa.data.crops.evaluation import Preparation
from openjepa.data.open import open_source
from openjepa.data.sources.arrays import ArraySource


def pictures(number: int, height: int, width: int) -> Pictures:
    """Smooth random pictures: Pillow rounds after each of its two passes, which noise would show."""
    coarse = torch.rand(number, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    smooth = torch.nn.functional.interpolate(coarse, size=(height, width), mode="bicubic").clamp(0, 1)
    return Pictures(ArraySource("smooth", (255 * smooth).byte()), image_size=(height, width))


def raw_of(held: Pictures, *places: int) -> Raw:
    return next(iter(held.batches([list(places)])))


def by_pillow(raw: Raw, resize: tuple[int, int], crop: int) -> torch.Tensor:
    """Resize (width, height), then the centre."""
    image = Image.fromarray(raw.images[0].permute(1, 2, 0).numpy()).resize(resize, Image.Resampling.BILINEAR)
    left, top = (resize[0] - crop) // 2, (resize[1] - crop) // 2
    pixels = np.asarray(image.crop((left, top, left + crop, top + crop)))
    return batched.normalise(torch.from_numpy(pixels.copy()).permute(2, 0, 1).float()[None])


def test_seven_eighths_of_the_centre_is_resize_256_crop_224() -> None:
    held = pictures(1, 300, 400)
    raw = raw_of(held, 0)
    expected = by_pillow(raw, (round(400 * 256 / 300 / 2) * 2, 256), 224)
    assert (
        Preparation((224, 224), crop=0.875)(raw, 1) - expected
    ).abs().max() < 0.05  # 3 of 255 levels: Pillow rounds twice


def test_squeezing_takes_the_whole_picture() -> None:
    held = pictures(1, 320, 480)
    raw = raw_of(held, 0)
    assert (Preparation((224, 224), squeeze=True)(raw, 1) - by_pillow(raw, (224, 224), 224)).abs().max() < 0.02


def test_the_plain_preparation_is_the_evaluation_crop_of_training() -> None:
    held = pictures(3, 40, 60)
    raw = raw_of(held, 0, 1, 2)
    expected = batched.evaluation(raw.images, raw.sizes, (32, 32))
    assert torch.allclose(Preparation((32, 32))(raw, 3), expected, atol=1e-4)


@pytest.mark.parametrize("squeeze", [False, True])
def test_pictures_of_the_right_size_are_only_normalised(squeeze: bool) -> None:
    held = pictures(2, 32, 32)
    raw = raw_of(held, 0, 1)
    assert torch.equal(Preparation((32, 32), squeeze=squeeze)(raw, 2), batched.normalise(raw.images.float()))
    resampled = batched.evaluation(raw.images, raw.sizes, (32, 32))
    assert torch.allclose(Preparation((32, 32))(raw, 2), resampled, atol=1e-4)


def test_a_random_view_is_a_function_of_its_number_and_the_place_alone() -> None:
    held = pictures(5, 40, 40)
    view = Preparation((16, 16), view=3)
    together, alone = view(raw_of(held, 1, 4), 5), view(raw_of(held, 4), 5)
    assert torch.allclose(together[1], alone[0], atol=1e-5)
    assert not torch.allclose(Preparation((16, 16), view=2)(raw_of(held, 4), 5), alone, atol=0.1)


def test_squeezed_views_differ_by_flips_only() -> None:
    held = pictures(8, 20, 30)
    raw = raw_of(held, *range(8))
    fixed, flipped = Preparation((16, 16), squeeze=True)(raw, 8), Preparation((16, 16), squeeze=True, view=1)(raw, 8)
    same = [torch.allclose(a, b, atol=1e-4) for a, b in zip(fixed, flipped, strict=True)]
    mirrored = [torch.allclose(a.flip(-1), b, atol=1e-4) for a, b in zip(fixed, flipped, strict=True)]
    assert all(a != b for a, b in zip(same, mirrored, strict=True)) and any(same) and any(mirrored)


@pytest.mark.parametrize(
    ("preparation", "expected"),
    [
        (Preparation((32, 32)), (32, 48)),  # of 200 × 300: the largest square has 32 rows
        (Preparation((28, 28), crop=0.875), (32, 48)),  # 28 of 32
        (Preparation((32, 32), squeeze=True), (32, 48)),
        (
            Preparation((32, 32), view=1),
            (107, 160),
        ),  # the smallest crop, 8 % and 3:4, has 32 columns of 160; one of 4:3 has 32 rows of 107
    ],
)
def test_pictures_are_decoded_as_large_as_the_smallest_crop_needs(
    preparation: Preparation, expected: tuple[int, int], tmp_path: Path
) -> None:
    Image.new("RGB", (300, 200)).save(tmp_path / "a.png")
    pictures = preparation.pictures(open_source(str(tmp_path)))
    assert pictures.decoder.canvas == expected


def test_each_preparation_has_its_own_description() -> None:
    kinds = [
        Preparation(size, crop=crop, squeeze=squeeze, view=view)
        for size in ((8, 8), (8, 16))
        for crop, squeeze in ((1.0, False), (0.875, False), (1.0, True))
        for view in (0, 1, 2)
    ]
    seen = {kind.describe() for kind in kinds}
    # Random crops do not depend on the fixed crop: these may share their features.
    assert len(seen) == 2 * (3 + 2 + 2)


def test_a_stratified_split_takes_its_share_of_every_class() -> None:
    labels = torch.tensor([0] * 50 + [1] * 10 + [2] * 2 + [3])
    rest, part = splits.split(labels, 0.2, torch.Generator().manual_seed(0))
    assert labels[part].bincount(minlength=4).tolist() == [10, 2, 1, 0]
    assert sorted([*rest.tolist(), *part.tolist()]) == list(range(len(labels)))


def test_ranks_count_every_class_from_zero() -> None:
    labels = torch.tensor([2, 0, 2, 2, 0])
    ranks = splits.shuffled_ranks(labels, torch.Generator().manual_seed(1))
    assert sorted(ranks[labels == 2].tolist()) == [0, 1, 2] and sorted(ranks[labels == 0].tolist()) == [0, 1]
