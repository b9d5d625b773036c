"""ResNet (He et al., 2016) for SimCLR and BYOL: `resnet18`, `resnet50`, wider with `resnet50x2`.

Images up to 64 px get the stem of CIFAR: one 3×3 convolution, no pooling.
"""

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from openjepa.core.errors import BadInput
from openjepa.models.batchnorm import BatchNorm

SMALL = 64  # px; larger images get the stem of ImageNet
STAGES = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}
BOTTLENECK_DEPTHS = (50,)
EXPANSION = 4  # of a bottleneck's width
BASE_WIDTH = 64


@dataclass(frozen=True)
class ResNetSize:
    depth: int
    width: int = 1  # times the usual number of channels

    @property
    def expansion(self) -> int:
        return EXPANSION if self.depth in BOTTLENECK_DEPTHS else 1


def parse(name: str) -> ResNetSize | None:
    """'resnet50x2' -> its size; None if the name is not a ResNet's."""
    if not name.startswith("resnet"):
        return None
    match = re.fullmatch(r"resnet(\d+)(?:x(\d+))?", name)
    if match is None or int(match[1]) not in STAGES or match[2] == "0":
        known = " or ".join(f"resnet{depth}" for depth in STAGES)
        raise BadInput(f'model "{name}" is not known; expected {known}, or wider, such as resnet50x2')
    return ResNetSize(int(match[1]), int(match[2] or 1))


class ResNet(nn.Module):
    """
    >>> import torch
    >>> from openjepa.models.resnet import ResNet, ResNetSize
    >>> ResNet(ResNetSize(18), image_size=(32, 32)).pool(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 512])
    """

    def __init__(self, size: ResNetSize, *, image_size: tuple[int, int]) -> None:
        super().__init__()
        self.size = size
        self.image_size = image_size
        width = BASE_WIDTH * size.width
        self.dim = 8 * width * size.expansion
        self.stem = _small_stem(width) if max(image_size) <= SMALL else _large_stem(width)
        stages, channels = [], width
        for stage, num_blocks in enumerate(STAGES[size.depth]):
            for block in range(num_blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                stages.append(Residual(channels, width * 2**stage, size.expansion, stride))
                channels = width * 2**stage * size.expansion
        self.stages = nn.Sequential(*stages)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, h, w] -> [B, N, D], one token per position of the last map."""
        return self.stages(self.stem(images)).flatten(2).transpose(1, 2)

    def pool(self, images: Tensor, branch_scales: Tensor | None = None) -> Tensor:
        """[B, 3, h, w] -> [B, D]: the mean over positions, the input of heads and probes."""
        return self(images).mean(dim=1)

    def draw_drop_path(self, *_: object, **__: object) -> None:
        """None; methods that also take ViTs call it."""

    def fresh(self) -> "ResNet":
        """The same architecture with new random weights."""
        return ResNet(self.size, image_size=self.image_size)


class Residual(nn.Module):
    """Two 3×3 convolutions, or with an expansion the bottleneck 1×1, 3×3, 1×1; stride in the 3×3."""

    def __init__(self, channels: int, width: int, expansion: int, stride: int) -> None:
        super().__init__()
        out = width * expansion
        if expansion == 1:
            self.body = nn.Sequential(*_conv(channels, width, 3, stride), nn.ReLU(), *_conv(width, out, 3))
        else:
            self.body = nn.Sequential(
                *_conv(channels, width, 1),
                nn.ReLU(),
                *_conv(width, width, 3, stride),
                nn.ReLU(),
                *_conv(width, out, 1),
            )
        is_same = channels == out and stride == 1
        self.shortcut = nn.Identity() if is_same else nn.Sequential(*_conv(channels, out, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def _conv(channels: int, out: int, kernel: int, stride: int = 1) -> list[Any]:
    return [nn.Conv2d(channels, out, kernel, stride, padding=kernel // 2, bias=False), BatchNorm(out)]


def _small_stem(width: int) -> nn.Module:
    return nn.Sequential(*_conv(3, width, 3), nn.ReLU())


def _large_stem(width: int) -> nn.Module:
    return nn.Sequential(*_conv(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1))
