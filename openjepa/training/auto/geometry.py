"""How many pixels and patches: about as many patches as the encoder should see, in the shape of the images."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from openjepa.core.errors import BadInput
from openjepa.models import resnet, sizes
from openjepa.training.auto.facts import Images

LONGEST_ASPECT = 4.0  # of a grid's sides; longer images are squeezed
NEARLY_SQUARE = 1.5  # of images: random crops make them square anyway
LEAST_SIDE = 4  # patches; smaller grids leave no room for masks
SMALLEST_PATCH = 2
ENLARGED = 1.15  # at most, where patches would have to be smaller otherwise
ASPECTS = (3 / 4, 4 / 3)  # of crops, relative to the shape of what the encoder sees


def choose(images: Images, *, patches: int, patch: int, given: Mapping[str, Any]) -> tuple[Any, int]:
    """-> (image size, patch in pixels): about `patches` patches of at most `patch` pixels; images are hardly enlarged."""
    if "data.image_size" in given:
        size = given["data.image_size"]
        return size, own_patch(given) or _patch_that_fits(size, patches)
    rows, columns = _grid(images, patches)
    side = own_patch(given)
    if side is None:
        side = min(patch, math.floor(ENLARGED * min(images.height / rows, images.width / columns)))
        side = max(side, SMALLEST_PATCH)
    else:  # fewer of them, rather than enlarged images
        rows, columns = (
            max(min(number, length // side), LEAST_SIDE)
            for number, length in ((rows, images.height), (columns, images.width))
        )
    return (rows * side if rows == columns else [rows * side, columns * side]), side


def own_patch(given: Mapping[str, Any]) -> int | None:
    """The patch of the user's own model."""
    return sizes.parse(str(given["model.name"]))[1] if has_own_vit(given) else None


def has_own_vit(given: Mapping[str, Any]) -> bool:
    return "model.name" in given and not has_resnet(given)


def has_resnet(given: Mapping[str, Any]) -> bool:
    return "model.name" in given and resnet.parse(str(given["model.name"])) is not None


def crop_aspect(image_size: int | Sequence[int]) -> list[float] | None:
    """For inputs that are not square: crops of about their shape; None for squares, which have the default."""
    if isinstance(image_size, int) or image_size[0] == image_size[1]:
        return None
    return [round(aspect * image_size[1] / image_size[0], 3) for aspect in ASPECTS]


def _grid(images: Images, patches: int) -> tuple[int, int]:
    """Rows and columns: about so many patches in all, in the shape of the images."""
    aspect = images.width / images.height
    if 1 / NEARLY_SQUARE <= aspect <= NEARLY_SQUARE:
        side = round(math.sqrt(patches))
        return side, side
    aspect = min(max(aspect, 1 / LONGEST_ASPECT), LONGEST_ASPECT)
    rows = max(round(math.sqrt(patches / aspect)), LEAST_SIDE)
    return rows, max(round(patches / rows), LEAST_SIDE)


def _patch_that_fits(image_size: int | Sequence[int], patches: int) -> int:
    """The divisor of both sides that comes closest to so many patches."""
    height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
    limit = min(height, width) // LEAST_SIDE
    divisors = [side for side in range(SMALLEST_PATCH, limit + 1) if height % side == 0 == width % side]
    if not divisors:
        near = max(8 * round(height / 8), 8 * LEAST_SIDE)
        raise BadInput(
            f"no patch divides an image size of {height}×{width} into at least {LEAST_SIDE}×{LEAST_SIDE} patches; "
            f"use a multiple of 8, such as {near}"
        )
    return min(divisors, key=lambda side: abs(math.log(height * width / side**2 / patches)))
