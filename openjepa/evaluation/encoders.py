"""Any encoder as one vector per image: ours, or somebody else's module that returns [B, N, D] or [B, D]."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from openjepa.core.contracts import HasLayers
from openjepa.core.errors import BadInput
from openjepa.nn import pooling, wrappers

NUM_LAYERS = 4  # blocks whose outputs are concatenated: the paper evaluates the last one and the last four


def pool_features(encoder: nn.Module, images: Tensor) -> Tensor:
    """[B, 3, h, w] -> [B, L·D] of an encoder with blocks, [B, D] of any other; see `width`."""
    layered = wrappers.unwrapped(encoder)
    if isinstance(layered, HasLayers):
        return layered.pool_layers(images, NUM_LAYERS)
    return one_vector(encoder, images)


def one_vector(encoder: nn.Module, images: Tensor) -> Tensor:
    """[B, 3, h, w] -> [B, D]: our own encoders pool; of any other the output, its tokens averaged."""
    layered = wrappers.unwrapped(encoder)
    if isinstance(layered, HasLayers):
        return layered.pool_layers(images, 1)
    output = encoder(images)
    if not isinstance(output, Tensor) or output.ndim not in (2, 3) or len(output) != len(images):
        shape = list(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise BadInput(
            f"the encoder {type(encoder).__name__} maps {list(images.shape)} to {shape}; expected a tensor [B, N, D] "
            "or [B, D]; wrap it in a module that returns one"
        )
    return pooling.mean(output) if output.ndim == 3 else output


def width(encoder: nn.Module, represented: Tensor) -> int:
    """D, the columns at the end of [S, L·D] that are the last block."""
    layered = wrappers.unwrapped(encoder)
    return layered.dim if isinstance(layered, HasLayers) else represented.shape[1]


def weights_hash(encoder: nn.Module) -> str:
    """sha256 of every parameter and buffer, by name."""
    digest = hashlib.sha256()
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def behaviour(encoder: nn.Module, image_size: tuple[int, int]) -> str:
    """A hash of the encoder's output for two fixed noise images, to three digits.

    Equal weights in different code give different features: for the cache they are different encoders.
    """
    noise = torch.randn(2, 3, *image_size, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode(), frozen([encoder]):
        output = pool_features(encoder, noise.to(device_of(encoder))).float().cpu()
    scale = output.abs().max().clamp(min=1e-12)
    return hashlib.sha256((1000 * output / scale).round().numpy().tobytes()).hexdigest()


def device_of(encoder: nn.Module) -> torch.device:
    return next((parameter.device for parameter in encoder.parameters()), torch.device("cpu"))


@contextmanager
def frozen(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Eval mode inside the block; afterwards every part has its old mode."""
    parts = [part for module in modules for part in module.modules()]
    modes = [part.training for part in parts]
    for part in parts:
        part.training = False
    try:
        yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode
