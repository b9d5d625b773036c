"""What an encoder sees in an evaluation, of arrays and of files, against Pillow."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from openjepa.core.contracts import Source
from openjepa.core.types import Sample
from openjepa.data import splits
from openjepa.data.batches.build import open_images
from openjepa.data.crops import batched, evaluation
from openjepa.data.crops.evaluation import EvaluationCrop
from openjepa.data.open import open_source
from openjepa.data.sources.arrays import ArraySource

CPU = torch.device("cpu")


def smooth(number: int, height: int, width: int) -> ArraySource:
    """Smooth random images: Pillow rounds after each of its two passes, which noise would show."""
    coarse = torch.rand(number, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    images = torch.nn.functional.interpolate(coarse, size=(height, width), mode="bicubic").clamp(0, 1)
    return ArraySource("smooth", (255 * images).byte())


def files(source: ArraySource, folder: Path, suffix: str = "png") -> Source:
    """The same images as files."""
    for index, image in enumerate(source.images):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(folder / f"{index}.{suffix}", quality=95)
    return open_source(str(folder))


def seen(source: Source, crop: EvaluationCrop, *index: int, view: int = 0) -> Tensor:
    """[B, 3, h, w] normalised"""
    requests = evaluation.requests(torch.tensor(index), len(source), view=view, batch_size=len(index))
    (batch,) = open_images(source, (crop.view(view),)).batches(requests, CPU)
    assert batch.is_valid.all()
    return batched.normalise(batch.views[0])


def by_pillow(source: ArraySource, resize: tuple[int, int], crop: int) -> Tensor:
    """Resize (width, height), then the centre."""
    image = Image.fromarray(source.images[0].permute(1, 2, 0).numpy()).resize(resize, Image.Resampling.BILINEAR)
    left, top = (resize[0] - crop) // 2, (resize[1] - crop) // 2
    pixels = np.asarray(image.crop((left, top, left + crop, top + crop)))
    return batched.normalise(torch.from_numpy(pixels.copy()).permute(2, 0, 1).float()[None])


def test_seven_eighths_of_the_centre_is_resize_256_crop_224() -> None:
    source = smooth(1, 300, 400)
    expected = by_pillow(source, (round(400 * 256 / 300 / 2) * 2, 256), 224)
    crop = EvaluationCrop((224, 224), crop=0.875)
    assert (seen(source, crop, 0) - expected).abs().max() < 0.05  # 3 of 255 levels: Pillow rounds twice


@pytest.mark.parametrize("suffix", ["png", "jpg"])
@pytest.mark.parametrize("size", [(300, 400), (600, 800), (1200, 1600)], ids=str)
def test_files_are_resized_to_256_and_cropped_to_224_too(size: tuple[int, int], suffix: str, tmp_path: Path) -> None:
    """Decoded whole, at a smaller JPEG scale or shrunk at once; JPEG loses some detail."""
    source = smooth(1, *size)
    expected = by_pillow(source, (round(size[1] * 256 / size[0] / 2) * 2, 256), 224)
    difference = seen(files(source, tmp_path, suffix), EvaluationCrop((224, 224), crop=0.875), 0) - expected
    assert difference.abs().mean() < 0.03 and difference.abs().max() < 0.2  # of about 4.5 from black to white


def test_squeezing_takes_the_whole_image(tmp_path: Path) -> None:
    source, crop = smooth(1, 320, 480), EvaluationCrop((224, 224), squeeze=True)
    expected = by_pillow(source, (224, 224), 224)
    assert (seen(source, crop, 0) - expected).abs().max() < 0.02
    assert (seen(files(source, tmp_path), crop, 0) - expected).abs().max() < 0.05


@pytest.mark.parametrize("crop", [0.875, 1.0])
@pytest.mark.parametrize("size", [(50, 70), (200, 300), (301, 203)], ids=str)
def test_files_and_arrays_show_the_same(size: tuple[int, int], crop: float, tmp_path: Path) -> None:
    source = smooth(3, *size)
    chosen = EvaluationCrop((32, 32), crop=crop)
    ours, theirs = (seen(one, chosen, 2, 0, 1) for one in (source, files(source, tmp_path)))
    assert (ours - theirs).abs().mean() < 1 / 57, "one grey level: crops of files are cut at fractions of pixels too"


def test_the_plain_crop_is_the_largest_centred_one() -> None:
    source = smooth(3, 40, 60)
    boxes = torch.tensor([[0.0, 10.0, 40.0, 40.0]]).expand(3, 4)
    expected = batched.normalise(batched.crop_resize(source.images, boxes, (32, 32)))
    assert torch.allclose(seen(source, EvaluationCrop((32, 32)), 0, 1, 2), expected, atol=1e-4)


@pytest.mark.parametrize("squeeze", [False, True])
def test_images_of_the_right_size_are_only_normalised(squeeze: bool, tmp_path: Path) -> None:
    source = smooth(2, 32, 32)
    crop = EvaluationCrop((32, 32), squeeze=squeeze)
    expected = batched.normalise(source.images.float())
    assert torch.equal(seen(source, crop, 0, 1), expected)
    assert torch.equal(seen(files(source, tmp_path), crop, 0, 1), expected)
    boxes = torch.tensor([[0.0, 0.0, 32.0, 32.0]]).expand(2, 4)
    resampled = batched.normalise(batched.crop_resize(source.images, boxes, (32, 32)))
    assert torch.allclose(seen(source, crop, 0, 1), resampled, atol=1e-4)


def test_a_random_view_is_a_function_of_its_number_and_the_index_alone(tmp_path: Path) -> None:
    array = smooth(5, 40, 40)
    crop = EvaluationCrop((16, 16))
    for source in (array, files(array, tmp_path)):
        together, alone = seen(source, crop, 1, 4, view=3), seen(source, crop, 4, view=3)
        assert torch.allclose(together[1], alone[0], atol=1e-5)
        assert not torch.allclose(seen(source, crop, 4, view=2), alone, atol=0.1)


def test_squeezed_views_differ_by_flips_only() -> None:
    source, crop = smooth(8, 20, 30), EvaluationCrop((16, 16), squeeze=True)
    fixed, flipped = seen(source, crop, *range(8)), seen(source, crop, *range(8), view=1)
    same = [torch.allclose(a, b, atol=1e-4) for a, b in zip(fixed, flipped, strict=True)]
    mirrored = [torch.allclose(a.flip(-1), b, atol=1e-4) for a, b in zip(fixed, flipped, strict=True)]
    assert all(a != b for a, b in zip(same, mirrored, strict=True)) and any(same) and any(mirrored)


@pytest.mark.parametrize(
    ("crop", "view", "expected"),
    [
        (EvaluationCrop((32, 32)), 0, (32, 48)),  # of 200 × 300: the largest square has 32 rows
        (EvaluationCrop((28, 28), crop=0.875), 0, (32, 48)),  # 28 of 32
        (EvaluationCrop((32, 32), squeeze=True), 0, (32, 32)),
        # The smallest crop, 8 % and 3:4, has 32 columns of 160; one of 4:3 has 32 rows of 107.
        (EvaluationCrop((32, 32)), 1, (107, 160)),
    ],
)
def test_images_are_decoded_as_large_as_the_smallest_crop_needs(
    crop: EvaluationCrop, view: int, expected: tuple[int, int]
) -> None:
    assert crop.view(view).min_size((200, 300)) == expected


@pytest.mark.parametrize(
    ("size", "expected"), [((480, 960), (224, 448)), ((600, 600), (224, 224)), ((100, 50), (100, 50))]
)
def test_a_centred_square_of_a_wide_image_has_all_of_its_pixels(size: tuple, expected: tuple) -> None:
    """It must not be enlarged from half as many columns; and a small image stays as it is."""
    assert EvaluationCrop((224, 224)).min_size(size) == expected


class Mixed:
    """Somebody's own source: only [index], images of two sizes."""

    def __init__(self, *parts: ArraySource) -> None:
        self.all = [image for part in parts for image in part.images]

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, index: int) -> Sample:
        return Sample(self.all[index])

    def all_labels(self) -> dict[str, Tensor]:
        return {}

    def fingerprint(self) -> str:
        return "mixed"


def test_images_of_a_source_that_differ_in_size_are_each_cropped_at_their_own() -> None:
    small, large = smooth(2, 30, 30), smooth(2, 50, 80)
    mixed, crop = Mixed(small, large), EvaluationCrop((30, 30))
    for view in (0, 1):
        together = seen(mixed, crop, 0, 3, 1, 2, view=view)
        alone = torch.cat([seen(mixed, crop, index, view=view) for index in (0, 3, 1, 2)])
        assert torch.allclose(together, alone, atol=1e-4)
    assert torch.equal(seen(mixed, crop, 0, 3)[0], seen(small, crop, 0)[0])
    assert torch.allclose(seen(mixed, crop, 0, 3)[1], seen(large, crop, 1)[0], atol=1e-4)


def test_each_crop_has_its_own_description() -> None:
    kinds = [
        EvaluationCrop(size, crop=crop, squeeze=squeeze).describe(view)
        for size in ((8, 8), (8, 16))
        for crop, squeeze in ((1.0, False), (0.875, False), (1.0, True))
        for view in (0, 1, 2)
    ]
    # Random crops do not depend on the fixed crop: these may share their features.
    assert len(set(kinds)) == 2 * (3 + 2 + 2)


def test_a_stratified_split_takes_its_share_of_every_class() -> None:
    labels = torch.tensor([0] * 50 + [1] * 10 + [2] * 2 + [3])
    rest, part = splits.split(labels, 0.2, torch.Generator().manual_seed(0))
    assert labels[part].bincount(minlength=4).tolist() == [10, 2, 1, 0]
    assert sorted([*rest.tolist(), *part.tolist()]) == list(range(len(labels)))


def test_ranks_count_every_class_from_zero() -> None:
    labels = torch.tensor([2, 0, 2, 2, 0])
    ranks = splits.shuffled_ranks(labels, torch.Generator().manual_seed(1))
    assert sorted(ranks[labels == 2].tolist()) == [0, 1, 2] and sorted(ranks[labels == 0].tolist()) == [0, 1]
