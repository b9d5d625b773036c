"""What is evaluated: the encoder of a run, a checkpoint or an official archive, fresh weights, or somebody's own module."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from openjepa.core.errors import BadInput
from openjepa.evaluation.probes.baselines import random_like
from openjepa.machine import device
from openjepa.models import sizes
from openjepa.models.vit import VisionTransformer
from openjepa.nn import wrappers
from openjepa.runs.directory import RunFolder
from openjepa.weights.load import Which, load_encoders, read_config

FRESH = "random:"  # `random:vit-mini/4` is a network with fresh weights, to measure the baselines alone


@dataclass(frozen=True, kw_only=True)
class Candidate:
    encoder: nn.Module
    random: nn.Module  # the same architecture with random weights
    image_size: tuple[int, int]
    which: str  # target encoder, context encoder, module, fresh weights
    pretraining: str | None = None  # the data it learned from, if known
    folder: RunFolder | None = None  # where scores are saved
    tuned: nn.Module | None = None  # what fine-tuning starts from, if it is not the encoder itself


def open_candidate(
    name_or_module: str | Path | nn.Module,
    *,
    which: Which = "target",
    image_size: int | tuple[int, int] | None = None,
    random: nn.Module | None = None,
) -> Candidate:
    """`image_size` is by default that of the encoder; a module without an attribute `image_size` needs one."""
    size = _pair(image_size)
    if isinstance(name_or_module, nn.Module):
        return _candidate(name_or_module, size, random, which="module")
    name = str(name_or_module)
    if name.startswith(FRESH):
        return _candidate(_fresh(name, size), size, random, which="fresh weights")
    encoder, tuned = load_encoders(name_or_module, which)
    folder, config = RunFolder(Path(name_or_module)), read_config(name_or_module)
    return _candidate(
        encoder,
        size,
        random,
        which=f"{which} encoder",
        pretraining=None if config is None else config.data.source,
        folder=folder if folder.holds_a_run else None,
        tuned=None if tuned is encoder else tuned,
    )


def _candidate(
    encoder: nn.Module,
    size: tuple[int, int] | None,
    random: nn.Module | None,
    *,
    which: str,
    pretraining: str | None = None,
    folder: RunFolder | None = None,
    tuned: nn.Module | None = None,
) -> Candidate:
    size = size or _image_size(encoder)
    return Candidate(
        encoder=_on_device(encoder, size),
        random=_on_device(random_like(encoder) if random is None else random, size),
        image_size=size,
        which=which,
        pretraining=pretraining,
        folder=folder,
        tuned=None if tuned is None else _on_device(tuned, size),
    )


def _fresh(name: str, size: tuple[int, int] | None) -> nn.Module:
    shape, patch_size = sizes.parse(name.removeprefix(FRESH))
    if size is None:
        raise BadInput(f"{name} has no image size of its own; add --image-size, such as --image-size 32")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return VisionTransformer(shape, patch_size=patch_size, image_size=size).eval()


def _image_size(encoder: nn.Module) -> tuple[int, int]:
    size = _pair(wrappers.attribute(encoder, "image_size"))
    if size is None:
        raise BadInput(
            f"the encoder {type(encoder).__name__} has no attribute image_size; pass one, such as image_size=224"
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


def _on_device(encoder: nn.Module, size: tuple[int, int]) -> nn.Module:
    patch = wrappers.attribute(encoder, "patch_size")
    if isinstance(patch, int) and (size[0] % patch or size[1] % patch):
        raise BadInput(f"image size {size[0]}×{size[1]} is not a multiple of the encoder's patch size {patch}")
    return encoder.to(device.choose())
