"""The data of the attention widget: attention weights of some images, small enough to embed in the page.

Each row of attention (one query, one head) is stored as bytes relative to its largest weight, and that weight as
float32, so that weight = byte / 255 · peak. Plain bytes of 0 … 1 would leave an average row of 196 patches at 1 of 255.
"""

import base64
from typing import Any

import torch
from torch import Tensor

from openjepa.models.vit import VisionTransformer
from openjepa.report.figures import panels
from openjepa.report.page import image_uri

LIMIT = 4 * 2**20  # bytes of attention in a page


def attention_as_bytes(encoder: VisionTransformer, images: Tensor) -> dict[str, Any] | None:
    """What templates/attention.js reads, or None when even the last block of one image would be too large."""
    blocks, num_images = fitting(encoder, len(images))
    if not num_images:
        return None
    images = images[:num_images]
    weights = torch.stack(
        [encoder.attention(images, block) for block in blocks], dim=1
    ).cpu()  # [B, blocks, heads, N, N]
    peaks = weights.amax(dim=4)  # [B, blocks, heads, N]
    scaled = (weights / peaks[..., None] * 255).round().to(torch.uint8)
    return {
        "grid": list(encoder.grid),
        "size": list(encoder.image_size),
        "blocks": [block + 1 for block in blocks],
        "heads": encoder.size.num_heads,
        "images": [image_uri(image) for image in panels.rgb(images)],
        "weights": base64.b64encode(scaled.numpy().tobytes()).decode(),
        "peaks": base64.b64encode(peaks.numpy().astype("<f4").tobytes()).decode(),
    }


def fitting(encoder: VisionTransformer, num_images: int) -> tuple[list[int], int]:
    """(blocks, images): all blocks if they fit, else the first, middle and last, else the last of fewer images."""
    depth = len(encoder.blocks)
    each = encoder.size.num_heads * encoder.grid.size**2  # bytes of one block of an image
    for blocks in (list(range(depth)), sorted({0, depth // 2, depth - 1})):
        if len(blocks) * each * num_images <= LIMIT:
            return blocks, num_images
    return [depth - 1], min(LIMIT // each, num_images)
