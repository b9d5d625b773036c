"""From a Config to an encoder and a method."""

from typing import Any

import torch

from openjepa.core import config as configs
from openjepa.core import schema, seeding
from openjepa.core.config import Config
from openjepa.core.contracts import Method, methods
from openjepa.core.errors import BadInput
from openjepa.core.types import EncoderNeeds
from openjepa.models import resnet, sizes
from openjepa.models.resnet import ResNet
from openjepa.models.vit import VisionTransformer


def encoder(config: Config) -> VisionTransformer | ResNet:
    chosen = methods[config.method["name"]]
    if resnet.parse(config.model.name) is not None:
        _check_takes_resnet(config, chosen)
    return _encoder(config, chosen.needs)


def _encoder(config: Config, needs: EncoderNeeds) -> VisionTransformer | ResNet:
    resnet_size = resnet.parse(config.model.name)
    if resnet_size is not None:
        return ResNet(resnet_size, image_size=config.data.height_width)
    size, patch_size = sizes.parse(config.model.name)
    return VisionTransformer(
        size,
        patch_size=patch_size,
        image_size=config.data.height_width,
        drop_path=config.model.drop_path,
        checkpoint_activations=config.model.checkpoint_activations,
        rescale_init=config.model.rescale_init,
        weight_init=config.model.weight_init,
        patch_init=config.model.patch_init,
        needs=needs,
    )


def _check_takes_resnet(config: Config, chosen: type[Method]) -> None:
    if not chosen.takes_resnet:
        raise BadInput(
            f"{config.method['name']} needs patches, so model {config.model.name} cannot be its encoder; "
            "use a ViT, such as vit-tiny/16"
        )
    if config.model.drop_path or config.model.checkpoint_activations:
        raise BadInput(
            f"model.drop_path and model.checkpoint_activations are for ViTs; leave them out with {config.model.name}"
        )


def method(config: Config) -> Method:
    """With first weights that depend on the seed only; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeding.number(config.seed, "init"))
        return _prefixed("method", schema.build, methods, config.method, encoder(config))


def outline(config: Config) -> Method:
    """The method on the meta device: every shape and no numbers, so that even the largest takes next to no memory."""
    with torch.device("meta"):
        shape = encoder(config)
    with torch.random.fork_rng(devices=[]):  # outside meta: a method tries its masks, which needs real numbers
        return _prefixed("method", schema.build, methods, config.method, shape).to("meta")


def resolve(config: Config) -> dict[str, Any]:
    """The method section with every option's value, as YAML can hold it."""
    with torch.device("meta"):
        shape = encoder(config)
        options = _prefixed("method", schema.resolve_named, methods, config.method)
        name = options.pop("name")
        return schema.plain({"name": name, **methods[name].complete(options, shape)})


def _prefixed(section: str, call: Any, *arguments: Any) -> Any:
    """Error messages name the section of the config."""
    try:
        return call(*arguments)
    except BadInput as error:
        raise BadInput(f"in section {section}: {error}") from None


def named_method(name: str, model: str, *, image_size: int | tuple[int, int], seed: int = 0, **options: Any) -> Method:
    """`openjepa.method`: a method with its first weights; `options` are those of its section in a config.

    >>> import openjepa, torch
    >>> method = openjepa.method("ijepa", "vit-nano/8", image_size=32, momentum=(0.99, 1.0))
    >>> method.encoder(torch.zeros(2, 3, 32, 32)).shape[:2]
    torch.Size([2, 16])
    """
    sections = {"data": {"image_size": image_size}, "model": {"name": model}, "method": {**options, "name": name}}
    return method(configs.load({"seed": seed, **sections}))


def named_encoder(model: str, *, image_size: int | tuple[int, int], seed: int = 0) -> VisionTransformer | ResNet:
    """`openjepa.encoder`: an encoder with its first weights, the same that a method starts from.

    >>> import openjepa, torch
    >>> openjepa.encoder("vit-nano/8", image_size=32).pool(torch.zeros(2, 3, 32, 32)).shape[0]
    2
    """
    config = configs.load({"data": {"image_size": image_size}, "model": {"name": model}})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeding.number(seed, "init"))
        return _encoder(config, EncoderNeeds())
