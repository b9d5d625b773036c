"""Opens an image file with Pillow. Every failure becomes BrokenImage with a short reason; Pillow's own switches stay untouched."""

import io
import os
import re
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import BinaryIO

from PIL import Image, ImageFile, UnidentifiedImageError

from openjepa.core.errors import BrokenImage

MAX_PIXELS = 178_000_000  # Pillow itself refuses more than 178.9 million, twice its Image.MAX_IMAGE_PIXELS

# What Pillow 13 raises on damaged files, found by cutting and corrupting 550 small images (23 formats) 300,000 times;
# RuntimeError is how AVIF, BLP and DDS complain, ArithmeticError is a division by a zero from the file.
PILLOW_ERRORS = (
    *(OSError, EOFError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError),
    *(AssertionError, RuntimeError, MemoryError, struct.error, zlib.error, Image.DecompressionBombError),
)
COMMON_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
# Pillow names these but cannot decode them by itself: it would run Ghostscript on EPS, the others need plug-ins.
NOT_PIXELS = frozenset({"BUFR", "EPS", "GRIB", "HDF5", "IPTC", "MPEG", "PALM", "PDF", "WMF"})
PILLOW_MODULES = re.compile(r"PIL\.")
File = str | os.PathLike[str] | bytes  # a path, or the bytes of a file


@contextmanager
def opened(file: File, *, at_once: bool = False) -> Iterator[ImageFile.ImageFile]:
    """The image, header read; every failure inside the `with` becomes BrokenImage. `at_once` reads all of the file first."""
    name = f"<{len(file)} bytes>" if isinstance(file, bytes) else os.fspath(file)
    _hush_pillow()
    try:
        with _stream(file, at_once) as stream:
            if stream.seek(0, os.SEEK_END) == 0:
                raise BrokenImage(name, "empty file")
            with Image.open(stream, formats=_formats()) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise BrokenImage(name, _too_large(image.width * image.height, MAX_PIXELS))
                yield image
    except PILLOW_ERRORS as error:
        raise BrokenImage(name, _reason(error)) from error


def _stream(file: File, at_once: bool) -> BinaryIO:
    if isinstance(file, bytes):
        return io.BytesIO(file)
    if not at_once:
        return open(file, "rb")
    with open(file, "rb") as stream:
        return io.BytesIO(stream.read())


def _hush_pillow() -> None:
    """Pillow warns about large images and damaged EXIF; what matters becomes BrokenImage, the rest is noise.

    Once for the process and for Pillow alone: warnings.catch_warnings around each decode would not be safe in threads.
    """
    if not any(entry[3] == PILLOW_MODULES for entry in warnings.filters):
        warnings.filterwarnings("ignore", module=PILLOW_MODULES.pattern)


def _too_large(pixels: int, limit: int) -> str:
    return f"{-(-pixels // 10**6)} megapixels, limit {limit // 10**6}"


def _reason(error: Exception) -> str:
    known = {
        FileNotFoundError: "no such file",
        PermissionError: "no permission to read it",
        IsADirectoryError: "a folder, not an image",
        UnidentifiedImageError: "not an image Pillow can read",
        MemoryError: "not enough memory to decode it",
    }
    if type(error) in known:
        return known[type(error)]
    text = " ".join(str(error).split())[:100] or type(error).__name__
    numbers = re.findall(r"\d+", text)
    if isinstance(error, Image.DecompressionBombError) and len(numbers) == 2:
        return _too_large(int(numbers[0]), int(numbers[1]))  # "Image size (N pixels) exceeds limit of M pixels"
    if isinstance(error, OSError) and error.errno is not None:
        return f"cannot be read: {error.strerror}"
    is_short = "truncated" in text.lower() or isinstance(error, EOFError | IndexError | struct.error)
    return f"truncated: {text}" if is_short else f"damaged: {text}"


@cache
def extensions() -> frozenset[str]:
    """Lower-case file extensions of the formats we decode, with the dot."""
    readable = {*_formats(), "MPO"}  # MPO, the stereo JPEG, comes in through the JPEG reader
    return frozenset(ext.lower() for ext, name in Image.registered_extensions().items() if name in readable)


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    rest = [name for name in Image.ID if name not in NOT_PIXELS and name not in COMMON_FORMATS]
    return (*COMMON_FORMATS, *rest)  # common first: some formats have no magic number and are only found by trying
