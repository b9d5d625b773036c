"""From a Config to an encoder and a method."""

from typing import Any

import torch

from openjepa.core import schema, seeding
from openjepa.core.config import Config
from openjepa.core.contracts import Method, methods
from openjepa.core.errors import BadInput
from openjepa.models import resnet, sizes
from openjepa.models.resnet import ResNet
from openjepa.models.vit import VisionTransformer


def encoder(config: Config) -> VisionTransformer | ResNet:
    wanted = methods[config.method["name"]]
    resnet_size = resnet.parse(config.model.name)
    if resnet_size is not None:
        _check_takes_resnet(config, wanted)
        return ResNet(resnet_size, image_size=config.data.height_width)
    size, patch_size = sizes.parse(config.model.name)
    return VisionTransformer(
        size,
        patch_size=patch_size,
        image_size=config.data.height_width,
        drop_path=config.model.drop_path,
        checkpoint_activations=config.model.checkpoint_activations,
        rescale_init=config.model.rescale_init,
        patch_init=config.model.patch_init,
        needs=wanted.needs,
    )


def _check_takes_resnet(config: Config, wanted: type[Method]) -> None:
    if not wanted.takes_resnet:
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
        given = _prefixed("method", schema.resolve_named, methods, config.method)
        name = given.pop("name")
        return schema.plain({"name": name, **methods[name].complete(given, shape)})


def _prefixed(section: str, call: Any, *arguments: Any) -> Any:
    """Errors name the section in which the setting stands."""
    try:
        return call(*arguments)
    except BadInput as error:
        raise BadInput(f"in section {section}: {error}") from None
