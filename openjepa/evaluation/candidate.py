"""What is evaluated: the encoder of a run, a checkpoint or an official archive, fresh weights, or somebody's own module."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from openjepa.core.errors import BadInput
from openjepa.machine import device
from openjepa.models import sizes
from openjepa.models.resnet import ResNet
from openjepa.models.vit import VisionTransformer
from openjepa.runs.directory import RunFolder
from openjepa.weights.load import Which, load_encoders, read_config

RANDOM_SEED = 1234  # of the baseline's weights: not the run's own start, which training might remember
FRESH = "random:"  # `random:vit-mini/4` is a network with fresh weights, to see what the floors are


@dataclass(frozen=True)
class Subject:
    name: str
    encoder: nn.Module
    random: nn.Module  # the same architecture with fresh weights
    image_size: tuple[int, int]
    which: str  # target or context encoder, or what else it is
    pretraining: str | None = None  # the data it learned from, where we know
    folder: RunFolder | None = None  # where scores are kept
    tuned: nn.Module | None = None  # what fine-tuning starts from, if it is not the encoder itself


def open_subject(
    given: str | Path | nn.Module,
    *,
    which: Which = "target",
    image_size: int | tuple[int, int] | None = None,
    random: nn.Module | None = None,
) -> Subject:
    """`image_size` is that of the encoder unless given; a module must have an attribute `image_size` or be told one."""
    size = _pair(image_size)
    if isinstance(given, nn.Module):
        return _of_module(given, size, random)
    if str(given).startswith(FRESH):
        return _fresh(str(given), size)
    encoder, tuned = load_encoders(given, which)
    size = size or _image_size(encoder)
    folder = RunFolder(Path(given))
    config = read_config(given)
    return Subject(
        name=str(given),
        encoder=_placed(encoder, size),
        random=_placed(random or random_like(encoder), size),
        image_size=size,
        which=f"{which} encoder",
        pretraining=None if config is None else config.data.source,
        folder=folder if folder.holds_a_run else None,
        tuned=None if tuned is encoder else _placed(tuned, size),
    )


def random_like(encoder: nn.Module) -> nn.Module:
    """The same architecture with fresh weights; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(RANDOM_SEED)
        if isinstance(encoder, VisionTransformer | ResNet):
            return encoder.fresh().eval()
        return _reset(copy.deepcopy(encoder)).eval()


def _reset(module: nn.Module) -> nn.Module:
    """Every part that can draw new weights does; loose parameters, such as class tokens, become small noise.

    Constant ones are left: the ones of a norm and the zeros of a bias are where they started.
    """
    for part in module.modules():
        reset = getattr(part, "reset_parameters", None)
        if callable(reset):
            reset()
    for parameter in _loose_parameters(module):
        if parameter.numel() > 1 and not torch.equal(parameter.amin(), parameter.amax()):
            torch.nn.init.normal_(parameter, std=0.02)
    return module


def _loose_parameters(module: nn.Module) -> Iterator[nn.Parameter]:
    for part in module.modules():
        if not callable(getattr(part, "reset_parameters", None)):
            yield from part.parameters(recurse=False)


def _of_module(encoder: nn.Module, size: tuple[int, int] | None, random: nn.Module | None) -> Subject:
    size = size or _image_size(encoder)
    baseline = random if random is not None else random_like(encoder)
    return Subject(type(encoder).__name__, _placed(encoder, size), _placed(baseline, size), size, "module")


def _fresh(name: str, size: tuple[int, int] | None) -> Subject:
    shape, patch_size = sizes.parse(name.removeprefix(FRESH))
    if size is None:
        raise BadInput(f"{name} has no image size of its own; add --image-size, such as --image-size 32")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoder = VisionTransformer(shape, patch_size=patch_size, image_size=size).eval()
    return Subject(name, _placed(encoder, size), _placed(random_like(encoder), size), size, "fresh weights")


def _image_size(encoder: nn.Module) -> tuple[int, int]:
    size = _pair(getattr(encoder, "image_size", None))
    if size is None:
        raise BadInput(
            f"the encoder {type(encoder).__name__} has no attribute image_size; say image_size=224 or the like"
        )
    return size


def _pair(size: Any) -> tuple[int, int] | None:
    """One number is a square."""
    if size is None:
        return None
    pair = (size, size) if isinstance(size, int) else size
    is_pair = isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(side, int) for side in pair)
    if not is_pair or min(pair) < 1:
        raise BadInput(f"image size is {size!r}; expected a number of pixels such as 224, or (height, width)")
    return pair[0], pair[1]


def _placed(encoder: nn.Module, size: tuple[int, int]) -> nn.Module:
    patch = getattr(encoder, "patch_size", None)
    if isinstance(patch, int) and (size[0] % patch or size[1] % patch):
        raise BadInput(f"image size {size[0]}×{size[1]} is not a multiple of the encoder's patch size {patch}")
    return encoder.to(device.choose())
