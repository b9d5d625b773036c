"""Frozen features of a labelled set: extracted once, in eval mode, without gradients; and the two floors."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from openjepa.data import transforms
from openjepa.data.pictures import Pictures

Pool = Callable[[Tensor], Tensor]  # [B, 3, h, w] -> [B, D]
PIXEL_SIDE = 32  # raw pixels of larger pictures are shrunk to this side, so that the floor stays a few thousand numbers


def extract(
    pictures: Pictures, pool: Pool, *, image_size: tuple[int, int], batch_size: int = 256
) -> tuple[Tensor, Tensor]:
    """-> [S, D] float32 in the order of the source, and [S] bool: False where a picture is broken and means nothing."""
    module = getattr(pool, "__self__", None)
    was_training = isinstance(module, nn.Module) and module.training
    place = torch.device("cpu")
    if isinstance(module, nn.Module):
        module.eval()
        place = next((parameter.device for parameter in module.parameters()), place)
    try:
        with torch.inference_mode():
            batches = _images(pictures, image_size, batch_size)
            parts = [(pool(images.to(place)).float().cpu(), ok) for images, ok in batches]
    finally:
        if isinstance(module, nn.Module):
            module.train(was_training)
    vectors, is_sound = zip(*parts, strict=True)
    return torch.cat(vectors).clone(), torch.cat(is_sound)


def raw_pixels(images: Tensor) -> Tensor:
    """[B, 3, h, w] -> [B, 3·h·w]: the floor, a representation that learned nothing."""
    if max(images.shape[2:]) > PIXEL_SIDE:
        images = nn.functional.interpolate(images, size=(PIXEL_SIDE, PIXEL_SIDE), mode="area")
    return images.flatten(1)


def _images(pictures: Pictures, image_size: tuple[int, int], batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    starts = range(0, len(pictures), batch_size)
    chunks = [list(range(start, min(start + batch_size, len(pictures)))) for start in starts]
    for raw in pictures.batches(chunks):
        yield transforms.evaluation(raw.images, raw.sizes, image_size), raw.is_sound
