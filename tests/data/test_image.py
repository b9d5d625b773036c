"""One image file to a tensor, against Pillow's own operations and hand-made cases."""

import io
import os
import pickle
import struct
import subprocess
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile, ImageOps

from openjepa.core.errors import BrokenImage
from openjepa.data.crops.evaluation import EvaluationCrop
from openjepa.data.crops.per_image import cut_whole_pixels
from openjepa.data.decode import image, pillow, shrink_on_load


def photo(height: int = 24, width: int = 40) -> Image.Image:
    """Smooth, so that JPEG changes little, and different in every corner, so that no two orientations look alike."""
    rows, columns = np.mgrid[0:height, 0:width]
    planes = [rows * 255 // height, columns * 255 // width, (rows + columns) * 255 // (height + width)]
    return Image.fromarray(np.stack(planes, axis=2).astype(np.uint8))


def encoded(source: Image.Image, format: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    source.save(buffer, format, **options)
    return buffer.getvalue()


def tensor(source: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(source.convert("RGB"))).permute(2, 0, 1)


def turned(orientation: int, format: str = "JPEG", size: tuple[int, int] = (24, 40)) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(photo(*size), format, exif=exif)


def distance(a: torch.Tensor, b: torch.Tensor) -> int:
    return int((a.int() - b.int()).abs().max())


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims a size and has no pixels."""
    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", size) + png_chunk(b"IDAT", b"") + png_chunk(b"IEND", b"")


def png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def stretched(data: bytes, size: tuple[int, int]) -> torch.Tensor:
    """All of an image at this (h, w), as an evaluation that squeezes sees it."""
    decoded = shrink_on_load.decode(data, EvaluationCrop(size, squeeze=True).min_size, shrink_on_load.Scratch())
    return cut_whole_pixels(decoded, [0.0, 0.0, *map(float, decoded.size)], size)


def reason(data: Any) -> str:
    with pytest.raises(BrokenImage) as caught:
        image.decode(data)
    return caught.value.reason


@pytest.mark.parametrize("format", ["PNG", "BMP", "TIFF", "PPM", "TGA"])
def test_lossless_formats_come_back_exactly(format: str) -> None:
    assert torch.equal(image.decode(encoded(photo(), format)), tensor(photo()))


def test_a_path_and_its_bytes_give_the_same_contiguous_uint8(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    photo().save(path)
    x = image.decode(path)
    assert x.dtype == torch.uint8 and x.shape == (3, 24, 40) and x.is_contiguous()
    assert torch.equal(x, image.decode(path.read_bytes())) and torch.equal(x, image.decode(str(path)))


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_is_turned_as_exif_transpose_does(orientation: int, format: str) -> None:
    data = turned(orientation, format)
    with Image.open(io.BytesIO(data)) as opened:
        expected = ImageOps.exif_transpose(opened)
    assert torch.equal(image.decode(data), tensor(expected))
    assert image.header(data).size == (expected.height, expected.width)
    assert image.header(data).orientation == orientation


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format", ["JPEG", "PNG", "TIFF"])
def test_orientation_and_size_go_together(orientation: int, format: str) -> None:
    data = turned(orientation, format, size=(120, 200))
    with Image.open(io.BytesIO(data)) as opened:
        expected = ImageOps.exif_transpose(opened).resize((30, 20), Image.Resampling.BILINEAR)
    assert distance(stretched(data, (20, 30)), tensor(expected)) <= 3  # JPEG: the scaled decode is another filter


def test_exif_behind_the_pixels_of_a_png_still_turns_it() -> None:
    data = turned(6, "PNG")
    start = data.index(b"eXIf") - 4
    length = 12 + struct.unpack(">I", data[start : start + 4])[0]
    end = data.index(b"IEND") - 4
    moved = data[:start] + data[start + length : end] + data[start : start + length] + data[end:]
    assert torch.equal(image.decode(moved), image.decode(data)) and image.decode(moved).shape == (3, 40, 24)


def test_damaged_exif_does_not_lose_the_image() -> None:
    data = encoded(photo(), "JPEG", exif=b"Exif\0\0not a tiff header at all")
    assert image.decode(data).shape == (3, 24, 40)


@pytest.mark.parametrize(
    ("needed", "decoded"),
    [
        ((50, 100), (51, 101)),  # 1/8; 403 / 8 rounds up
        ((51, 101), (101, 202)),
        ((101, 202), (202, 403)),
        ((202, 403), (403, 805)),
        ((500, 900), (403, 805)),
    ],
)
def test_a_scaled_jpeg_decode_is_the_smallest_that_is_large_enough(
    needed: tuple[int, int], decoded: tuple[int, int]
) -> None:
    data = encoded(photo(403, 805), "JPEG")
    assert shrink_on_load.decode(data, lambda true: needed, shrink_on_load.Scratch()).pixels.shape[:2] == decoded
    assert stretched(data, needed).shape == (3, *needed)


def test_a_scaled_decode_also_returns_the_true_upright_size() -> None:
    data = turned(6, size=(120, 200))
    assert shrink_on_load.decode(data, lambda true: (16, 16), shrink_on_load.Scratch()).size == (200, 120)
    assert stretched(data, (16, 16)).shape == (3, 16, 16)


def test_shrinking_is_antialiased() -> None:
    board = (np.indices((64, 64)).sum(axis=0) % 2 * 255).astype(np.uint8)
    x = stretched(encoded(Image.fromarray(board), "PNG"), (8, 8))
    assert distance(x, torch.full_like(x, 128)) < 16  # without antialiasing it would be black or white


@pytest.mark.parametrize("mode", ["L", "1"])
def test_grey_is_repeated(mode: str) -> None:
    source = photo().convert(mode)
    x = image.decode(encoded(source, "PNG"))
    assert torch.equal(x[0], x[1]) and torch.equal(x[1], x[2])
    assert torch.equal(x, tensor(source))


def test_alpha_is_laid_on_white() -> None:
    pixels = np.array([[[200, 0, 0, 255], [200, 0, 0, 0], [0, 0, 0, 128]]], np.uint8)
    x = image.decode(encoded(Image.fromarray(pixels), "PNG"))
    assert x[:, 0, 0].tolist() == [200, 0, 0]
    assert x[:, 0, 1].tolist() == [255, 255, 255]  # not the red that is stored below
    assert x[:, 0, 2].tolist() == [127, 127, 127]


def test_grey_with_alpha_is_laid_on_white() -> None:
    pixels = np.array([[[10, 255], [10, 0]]], np.uint8)
    source = Image.merge("LA", [Image.fromarray(np.ascontiguousarray(pixels[..., i])) for i in (0, 1)])
    assert image.decode(encoded(source, "PNG"))[0].tolist() == [[10, 255]]


@pytest.mark.parametrize(("format", "transparency"), [("GIF", 1), ("PNG", 1), ("PNG", b"\xff\x00")])
def test_a_transparent_palette_colour_is_laid_on_white(format: str, transparency: int | bytes) -> None:
    source = Image.fromarray(np.array([[0, 1], [1, 0]], np.uint8)).convert("P")
    source.putpalette([200, 100, 50, 1, 2, 3])
    x = image.decode(encoded(source, format, transparency=transparency))
    assert x[:, 0, 0].tolist() == [200, 100, 50] and x[:, 0, 1].tolist() == [255, 255, 255]


def test_an_opaque_palette_keeps_its_colours() -> None:
    source = photo().quantize(16)
    assert torch.equal(image.decode(encoded(source, "PNG")), tensor(source))


def test_cmyk_jpeg_has_the_right_colours() -> None:
    data = encoded(photo().convert("CMYK"), "JPEG", quality=98)
    assert image.header(data).mode == "CMYK"
    assert distance(image.decode(data), tensor(photo())) < 12


def test_ycck_jpeg_is_decoded() -> None:
    # Luminance 255 - 40, no colour, no black. Pillow stores CMYK inverted; the marker's last byte 2 says "YCCK".
    data = bytearray(encoded(Image.new("CMYK", (16, 16), (40, 127, 127, 0)), "JPEG", quality=98))
    data[data.index(b"Adobe") + 11] = 2
    x = image.decode(bytes(data))
    assert distance(x, torch.full_like(x, 40)) <= 3


@pytest.mark.parametrize("format", ["PNG", "TIFF", "PPM"])
def test_16_bit_grey_is_scaled_and_not_clipped(format: str) -> None:
    values = np.array([[0, 257, 128 * 257, 65535]], np.uint16)
    assert image.decode(encoded(Image.fromarray(values), format))[0].tolist() == [[0, 1, 128, 255]]


def test_floats_in_0_to_1_keep_their_scale_and_others_are_stretched() -> None:
    unit = np.array([[0.0, 0.2, 0.6]], np.float32)
    wide = np.array([[-10.0, 0.0, 10.0, np.nan, np.inf]], np.float32)
    assert image.decode(encoded(Image.fromarray(unit), "TIFF"))[0].tolist() == [[0, 51, 153]]
    assert image.decode(encoded(Image.fromarray(wide), "TIFF"))[0].tolist() == [[0, 128, 255, 0, 255]]


def test_32_bit_whole_numbers_beyond_16_bits_are_stretched() -> None:
    values = np.array([[-100, 0, 100_000]], np.int32)
    assert image.decode(encoded(Image.fromarray(values), "TIFF"))[0].tolist() == [[0, 0, 255]]


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG", "TIFF"])
def test_an_animation_gives_its_first_frame(format: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime", "blue")]
    options = {"lossless": True} if format == "WEBP" else {}
    data = encoded(frames[0], format, save_all=True, append_images=frames[1:], **options)
    assert image.decode(data)[:, 0, 0].tolist() == [255, 0, 0]


def test_zero_bytes_are_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").touch()
    assert reason(tmp_path / "a.jpg") == reason(b"") == "empty file"


def test_what_is_not_an_image_is_reported() -> None:
    assert reason(b"hello, I am a text file and always was\n" * 50) == "not an image Pillow can read"


@pytest.mark.parametrize("format", ["JPEG", "PNG"])
@pytest.mark.parametrize("size", [None, (8, 8)])
def test_a_truncated_image_is_broken_and_says_truncated(format: str, size: tuple[int, int] | None) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8))
    data = encoded(noise, format)
    with pytest.raises(BrokenImage, match="truncated: "):
        cut_short = data[: len(data) // 2]
        image.decode(cut_short) if size is None else stretched(cut_short, size)
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False


def test_missing_files_and_folders_are_broken_images(tmp_path: Path) -> None:
    assert reason(tmp_path / "none.png") == "no such file"
    assert reason(tmp_path) == "a folder, not an image"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_without_permission_is_a_broken_image(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    photo().save(path)
    path.chmod(0)
    assert reason(path) == "no permission to read it"


def test_a_permission_error_has_its_own_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pillow, "_stream", mock.Mock(side_effect=PermissionError(13, "Permission denied")))
    assert reason("a.png") == "no permission to read it"


@pytest.mark.parametrize("width", [20_000, 10_000])  # beyond and below what Pillow itself refuses
def test_a_huge_image_is_refused_by_its_header(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pillow, "MAX_PIXELS", 100_000_000)
    limit = 178 if width == 20_000 else 100
    assert reason(png_header(width, 15_000)) == f"{width * 15_000 // 10**6} megapixels, limit {limit}"


def test_a_large_image_does_not_warn() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert image.header(png_header(10_000, 10_000)).size == (10_000, 10_000)  # Pillow warns from 89 megapixels
    assert caught == []


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP"])
def test_any_damage_is_a_broken_image_or_an_image(format: str) -> None:
    """Pillow raises fifteen kinds of errors for damaged files; only ours may come out."""
    random = np.random.default_rng(0)
    data = encoded(photo(16, 12), format)
    for _ in range(150):
        damaged = bytearray(data[: random.integers(1, len(data))] if random.random() < 0.4 else data)
        for position in random.integers(0, min(len(damaged), 200), 3):
            damaged[position] = random.integers(0, 256)
        try:
            if np.prod(image.header(bytes(damaged)).size) < 1_000_000:
                assert stretched(bytes(damaged), (5, 7)).shape == (3, 5, 7)
                image.decode(bytes(damaged))
        except BrokenImage as error:
            assert error.reason and "\n" not in error.reason


def test_a_broken_image_survives_pickling_and_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(BrokenImage) as caught:
        image.decode(tmp_path / "none.png")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == f"{tmp_path / 'none.png'}: no such file"


def test_header_reads_no_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    load = mock.Mock()
    data = encoded(photo(), "PNG")
    monkeypatch.setattr(ImageFile.ImageFile, "load", load)
    assert image.header(data) == ("PNG", "RGB", (24, 40), 1)
    assert not load.called


def test_extensions_are_those_that_can_be_decoded() -> None:
    assert {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".mpo"} <= pillow.extensions()
    assert not {".pdf", ".eps", ".h5", ".mpg", ".txt"} & pillow.extensions()


def test_importing_changes_nothing_in_pillow() -> None:
    code = (
        "import warnings; from PIL import Image, ImageFile; before = Image.MAX_IMAGE_PIXELS;"
        "import openjepa.data.decode.image;"
        "assert Image.MAX_IMAGE_PIXELS == before and not ImageFile.LOAD_TRUNCATED_IMAGES and not Image._initialized;"
        "assert not any('PIL' in str(entry) for entry in warnings.filters)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
