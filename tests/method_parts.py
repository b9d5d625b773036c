"""Small encoders, images and steps for tests of methods."""

import torch

from conftest import TINY
from openjepa.core.contracts import methods
from openjepa.core.types import Step
from openjepa.models.vit import VisionTransformer


def encoder(name: str) -> VisionTransformer:
    torch.manual_seed(0)
    return VisionTransformer(TINY, patch_size=4, image_size=(32, 32), patch_init=0.2, needs=methods[name].needs)


def images(number: int = 4, side: int = 32, seed: int = 1) -> torch.Tensor:
    return torch.randn(number, 3, side, side, generator=torch.Generator().manual_seed(seed))


def step(index: int = 3, size: int = 4) -> Step:
    return Step(index=index, total=10, seed=5, batch_size=size, rows=slice(0, size))
