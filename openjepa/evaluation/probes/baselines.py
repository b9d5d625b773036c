"""What a trained encoder must beat: raw pixels, and the same architecture with random weights."""

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from openjepa.core.contracts import ResetsParameters
from openjepa.models.resnet import ResNet
from openjepa.models.vit import VisionTransformer
from openjepa.nn import wrappers

PIXEL_SIDE = 32  # larger images are shrunk to this side: raw pixels stay a few thousand numbers
RANDOM_SEED = 1234  # not the run's own seed: training may still resemble its starting weights


class RawPixels(nn.Module):
    """The floor: a representation that learned nothing."""

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, h, w] -> [B, 3·h·w]"""
        if max(images.shape[2:]) > PIXEL_SIDE:
            images = nn.functional.interpolate(images, size=(PIXEL_SIDE, PIXEL_SIDE), mode="area")
        return images.flatten(1)


def random_like(encoder: nn.Module) -> nn.Module:
    """The same architecture with random weights; does not change the global generator.

    >>> from torch import nn
    >>> from openjepa.evaluation.probes.baselines import random_like
    >>> trained = nn.Linear(4, 4)
    >>> bool((random_like(trained).weight == trained.weight).all())
    False
    """
    encoder = wrappers.unwrapped(encoder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(RANDOM_SEED)
        if isinstance(encoder, VisionTransformer | ResNet):
            return encoder.fresh().eval()
        return _reset(copy.deepcopy(encoder)).eval()


def _reset(module: nn.Module) -> nn.Module:
    """Parts that can draw new weights do so; loose parameters, such as class tokens, become small noise.

    Constant parameters stay: the ones of a norm and the zeros of a bias are their starting values.
    """
    for part in module.modules():
        if isinstance(part, ResetsParameters):
            part.reset_parameters()
    for parameter in _loose_parameters(module):
        if parameter.numel() > 1 and not torch.equal(parameter.amin(), parameter.amax()):
            torch.nn.init.normal_(parameter, std=0.02)
    return module


def _loose_parameters(module: nn.Module) -> Iterator[nn.Parameter]:
    for part in module.modules():
        if not isinstance(part, ResetsParameters):
            yield from part.parameters(recurse=False)
