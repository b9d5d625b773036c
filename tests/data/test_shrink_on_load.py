"""Files decoded for crops and cut, against Pillow."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from openjepa.core.errors import BrokenImage
from openjepa.data.crops.crop import RandomCrop
from openjepa.data.crops.per_image import cut_whole_pixels
from openjepa.data.decode import image
from openjepa.data.decode.shrink_on_load import Decoded, Scratch, decode


def photo(height: int, width: int, seed: int = 0) -> Image.Image:
    small = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def encoded(image: Image.Image, format: str = "JPEG", **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def pixels_of(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(image.convert("RGB")))


def whole(true: tuple[int, int]) -> tuple[int, int]:
    return true


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "GIF"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_an_image_that_is_needed_whole_is_what_pillow_decodes(format: str, mode: str) -> None:
    data = encoded(photo(45, 67).convert(mode), format)
    decoded = decode(data, whole, Scratch())
    assert decoded.extent == decoded.size == (45, 67)
    assert torch.equal(decoded.pixels[:, :, :3], pixels_of(Image.open(io.BytesIO(data))))


def test_a_jpeg_is_decoded_at_the_smallest_scale_that_is_large_enough() -> None:
    data = encoded(photo(403, 805))
    decoded = decode(data, lambda true: (50, 100), Scratch())
    with Image.open(io.BytesIO(data)) as opened:
        opened.draft("RGB", (100, 50))
        assert torch.equal(decoded.pixels[:, :, :3], pixels_of(opened))
    assert decoded.extent == (403 / 8, 805 / 8) and decoded.size == (403, 805)


def test_memory_is_used_again_and_an_image_is_not_mixed_with_the_one_before() -> None:
    scratch = Scratch()
    first = decode(encoded(photo(60, 80, seed=1)), whole, scratch).pixels
    second = decode(encoded(photo(30, 50, seed=2)), whole, scratch).pixels
    assert first.data_ptr() == second.data_ptr()
    assert torch.equal(second, decode(encoded(photo(30, 50, seed=2)), whole, Scratch()).pixels)


def test_a_pillow_that_uses_its_own_memory_gives_the_same_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(photo(45, 67))
    ours = decode(data, whole, Scratch()).pixels[:, :, :3].clone()
    monkeypatch.setattr(Scratch, "load", lambda self, opened: None)
    assert torch.equal(decode(data, whole, Scratch()).pixels, ours)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_every_orientation_is_turned_upright(orientation: int, format: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(photo(64, 128), format, exif=exif)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    decoded = decode(data, whole, Scratch())
    assert torch.equal(decoded.pixels[:, :, :3], pixels_of(upright))
    half = decode(data, lambda true: (true[0] // 2, true[1] // 2), Scratch())
    expected = (upright.height // 2, upright.width // 2)
    assert half.size == (upright.height, upright.width) == decoded.extent
    assert half.pixels.shape[:2] == (expected if format == "JPEG" else decoded.size), (
        "only a JPEG is cheaper at half size"
    )


def test_an_image_far_larger_than_needed_is_shrunk() -> None:
    decoded = decode(encoded(photo(400, 600), "PNG"), lambda true: (40, 60), Scratch())
    assert decoded.pixels.shape == (40, 60, 3) and decoded.extent == (40, 60) and decoded.size == (400, 600)


def test_a_broken_file_is_named_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "cut.jpg").write_bytes(encoded(photo(60, 80))[:900])
    with pytest.raises(BrokenImage, match="cut.jpg: truncated"):
        decode(tmp_path / "cut.jpg", whole, Scratch())
    with pytest.raises(BrokenImage, match="none.jpg: no such file"):
        decode(tmp_path / "none.jpg", whole, Scratch())


@pytest.mark.parametrize("box", [(0, 0, 40, 60), (3, 10, 20, 31), (5, 5, 8, 9)], ids=str)
@pytest.mark.parametrize("size", [(16, 16), (24, 12), (50, 70)], ids=str)
def test_a_crop_is_pillows_crop_and_then_resize(box: tuple, size: tuple) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    top, left, height, width = box
    part = Image.fromarray(noise).crop((left, top, left + width, top + height))
    expected = pixels_of(part.resize(size[::-1], Image.Resampling.BILINEAR)).permute(2, 0, 1)
    ours = cut_whole_pixels(Decoded(torch.from_numpy(noise), (40, 60), (40, 60)), [float(side) for side in box], size)
    assert (ours.int() - expected.int()).abs().max() <= 1


def test_a_crop_of_a_scaled_image_shows_what_the_same_crop_of_the_whole_one_does() -> None:
    data, box = encoded(photo(403, 805), quality=95), [100.0, 200.0, 240.0, 240.0]
    views = [
        cut_whole_pixels(decode(data, need, Scratch()), box, (32, 32)) for need in (whole, lambda true: (100, 200))
    ]
    assert (views[0].int() - views[1].int()).abs().float().mean() < 2


def test_a_crop_smaller_than_a_pixel_is_a_pixel() -> None:
    tiny = Decoded(torch.arange(12, dtype=torch.uint8).view(2, 2, 3), (2, 2), (200, 200))
    assert torch.equal(
        cut_whole_pixels(tiny, [199.0, 199.0, 1.0, 1.0], (1, 1)).flatten(), torch.tensor([9, 10, 11]).byte()
    )


def test_a_crop_never_has_to_be_enlarged_if_the_image_had_the_pixels() -> None:
    crop = RandomCrop(size=(64, 64), scale=(0.3, 1.0), aspect=(0.75, 4 / 3))
    assert crop.min_size((480, 640)) == (117, 156)
    assert decode(encoded(photo(480, 640)), crop.min_size, Scratch()).pixels.shape[:2] == (120, 160)
    assert image.header(encoded(photo(30, 20))).size == crop.min_size((30, 20)), "and a small one stays as it is"
