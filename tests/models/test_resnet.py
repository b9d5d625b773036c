"""The ResNets against transformers' own, and what the command line says about them."""

import pytest
import torch
from torch import nn
from transformers import ResNetConfig, ResNetModel

from openjepa.core import config as configs
from openjepa.core.errors import BadInput
from openjepa.models.resnet import Residual, ResNet, parse
from openjepa.training import setup

OF_TRANSFORMERS = {
    "resnet18": ResNetConfig(hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic"),
    "resnet50": ResNetConfig(hidden_sizes=[256, 512, 1024, 2048], depths=[3, 4, 6, 3], layer_type="bottleneck"),
}


def layers(module: nn.Module) -> list[nn.Module]:
    return [layer for layer in module.modules() if isinstance(layer, nn.Conv2d | nn.modules.batchnorm._BatchNorm)]


@pytest.mark.parametrize("name", OF_TRANSFORMERS)
def test_a_resnet_computes_what_transformers_does_with_the_same_weights(name: str) -> None:
    torch.manual_seed(0)
    theirs = ResNetModel(OF_TRANSFORMERS[name]).eval()
    ours = ResNet(parse(name), image_size=(96, 96)).eval()
    blocks = [block for stage in theirs.encoder.stages for block in stage.layers]
    pairs = list(zip(layers(ours.stem), layers(theirs.embedder), strict=True))
    for mine, other in zip(ours.stages, blocks, strict=True):
        assert isinstance(mine, Residual)
        pairs += zip(layers(mine.body), layers(other.layer), strict=True)
        pairs += zip(layers(mine.shortcut), layers(other.shortcut), strict=True)
    assert len(pairs) == len(layers(ours)), "every layer has its partner"
    for mine, other in pairs:
        if not isinstance(other, nn.Conv2d):
            nn.init.uniform_(other.weight, 0.5, 1.5)
            nn.init.normal_(other.bias, std=0.1)
            nn.init.normal_(other.running_mean, std=0.1)
        mine.load_state_dict(other.state_dict())
    images = torch.randn(2, 3, 96, 96)
    with torch.no_grad():
        expected = theirs(images).pooler_output.flatten(1)
        torch.testing.assert_close(ours.pool(images), expected, rtol=1e-3, atol=1e-4)


def test_small_images_get_the_stem_of_cifar() -> None:
    small = ResNet(parse("resnet18"), image_size=(32, 32))
    assert sum(weight.numel() for weight in small.parameters()) == 11_168_832  # 11,173,962 with a head for ten classes
    assert small(torch.zeros(1, 3, 32, 32)).shape == (1, 16, 512)


def test_wider_ones_have_more_channels() -> None:
    with torch.device("meta"):
        assert ResNet(parse("resnet50x2"), image_size=(224, 224)).dim == 4096


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"model": {"name": "resnet34"}, "method": {"name": "byol"}}, "expected resnet18 or resnet50"),
        ({"model": {"name": "resnet18"}}, "ijepa needs patches"),
        ({"model": {"name": "resnet18", "drop_path": 0.1}, "method": {"name": "byol"}}, "are for ViTs"),
    ],
)
def test_an_impossible_resnet_is_refused_in_one_sentence(settings: dict, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        setup.resolve(configs.load(settings))
