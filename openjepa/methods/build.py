"""From a Config to the parts: data, encoder, method, optimiser. What a config leaves open is decided and written back here."""

from typing import Any, get_args, get_type_hints

import torch
from torch import nn

from openjepa.core import schema as options
from openjepa.core import seeding
from openjepa.core.config import DEFAULT_EPOCHS, Config
from openjepa.core.contracts import Method, Monitor, Source, methods, monitors
from openjepa.core.errors import BadInput
from openjepa.core.types import Augmentation
from openjepa.data.batches.from_arrays import Pictures
from openjepa.data.batches.from_files import Files
from openjepa.data.batches.loader import Croppable, Loader
from openjepa.data.batches.order import Order, Split
from openjepa.data.crops.per_image import Reducible
from openjepa.data.crops.request import Crop, Crops
from openjepa.machine import distributed
from openjepa.machine.progress import Track
from openjepa.models import resnet, sizes
from openjepa.models.resnet import ResNet
from openjepa.models.vit import VisionTransformer
from openjepa.training import optim


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
    if ResNet not in get_args(get_type_hints(wanted.__init__)["encoder"]):
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
        return _prefixed("method", options.build, methods, config.method, encoder(config))


def outline(config: Config) -> Method:
    """The method on the meta device: every shape and no numbers, so that even the largest takes next to no memory."""
    with torch.device("meta"):
        shape = encoder(config)
    with torch.random.fork_rng(devices=[]):  # outside meta: a method tries its masks, which needs real numbers
        return _prefixed("method", options.build, methods, config.method, shape).to("meta")


def resolve(config: Config) -> Config:
    """Every option of the method and the monitors with its value, so that the run's config says all."""
    with torch.device("meta"):
        shape = encoder(config)
        given = _prefixed("method", options.resolve_named, methods, config.method)
        name = given.pop("name")
        completed = {"name": name, **methods[name].complete(given, shape)}
    watching = {
        name: False if given is False else _monitor_options(name, given) for name, given in config.monitors.items()
    }
    return config.model_copy(update={"method": options.plain(completed), "monitors": options.plain(watching)})


def total_steps(config: Config, steps_per_epoch: int) -> int:
    """The length of the run; `minutes` must have been turned into steps before."""
    train = config.train
    if train.steps is not None:
        return train.steps
    epochs = train.epochs if train.epochs is not None else DEFAULT_EPOCHS
    return max(round(epochs * steps_per_epoch), 1)


def check_data(config: Config, source: Source) -> None:
    """Refuses, before anything is decoded, a cache of files that are none, and batches that cannot be filled or shared."""
    if config.data.cache == "disk" and not isinstance(source, Reducible):
        raise BadInput(
            f"data.cache is disk, but {config.data.source} holds no picture files; leave it out, or use memory or none"
        )
    Order(len(source), config.train.batch_size, config.seed)
    Split(config.train.batch_size, config.train.accumulate, distributed.rank(), distributed.world_size())


def loader(
    config: Config, pictures: Croppable, device: torch.device, augmentations: tuple[Augmentation, ...] = ()
) -> Loader:
    train = config.train
    split = Split(train.batch_size, train.accumulate, distributed.rank(), distributed.world_size())
    return Loader(
        pictures=pictures,
        order=Order(len(pictures), train.batch_size, config.seed),
        split=split,
        seed=config.seed,
        crops=crops(config, augmentations),
        max_broken=config.data.max_broken,
        device=device,
        augmentations=augmentations,
    )


def pictures(
    config: Config,
    source: Source,
    augmentations: tuple[Augmentation, ...] = (),
    track: Track | None = None,
) -> Croppable:
    data, wanted = config.data, crops(config, augmentations)
    if isinstance(source, Reducible):
        return Files(source, wanted, cache=data.cache, num_workers=data.workers, track=track)
    assert data.cache != "disk", "check_data refuses it"
    return Pictures(  # in memory already, or drawn
        source,
        image_size=data.height_width,
        crop_scale=min(crop.scale[0] for crop in wanted),
        crop_aspect=(min(crop.aspect[0] for crop in wanted), max(crop.aspect[1] for crop in wanted)),
        cache=data.cache,
        num_workers=data.workers,
        track=track,
    )


def crops(config: Config, augmentations: tuple[Augmentation, ...]) -> Crops:
    """What is cut out of every picture: a view for each augmentation, or the one crop of the data section."""
    data = config.data
    if not augmentations:
        return (Crop(data.height_width, data.crop_scale, data.crop_aspect, data.flip),)
    return tuple(Crop(view.size, view.scale, view.aspect, view.flip) for view in augmentations)


def rates(config: Config, *, steps_per_epoch: int, total: int) -> optim.Rates:
    section = config.optim
    return optim.Rates(
        lr=section.lr,
        start_lr=section.start_lr,
        final_lr=section.final_lr,
        warmup_steps=section.warmup.steps(steps_per_epoch=steps_per_epoch, total=total),
        weight_decay=section.weight_decay,
        total=total,
    )


def watchers(config: Config, *, steps_per_epoch: int, total: int) -> list[tuple[int, Monitor]]:
    """(every so many steps, monitor)."""
    switched_on = {name: given for name, given in config.monitors.items() if given is not False}
    built = [monitors[name](**_monitor_options(name, given)) for name, given in switched_on.items()]
    return [(max(monitor.every.steps(steps_per_epoch=steps_per_epoch, total=total), 1), monitor) for monitor in built]


def check_watchers(config: Config, encoder: nn.Module) -> None:
    """A monitor that needs something of its own, such as labelled pictures, says before the run begins what is missing."""
    for _, monitor in watchers(config, steps_per_epoch=1, total=1):
        check = getattr(monitor, "check", None)
        if check is not None:
            check(encoder)


def _monitor_options(name: str, given: dict[str, Any]) -> dict[str, Any]:
    return options.resolve(monitors[name], given, where=f"monitors.{name}")


def _prefixed(section: str, call: Any, *arguments: Any) -> Any:
    """Errors name the section in which the setting stands."""
    try:
        return call(*arguments)
    except BadInput as error:
        raise BadInput(f"in section {section}: {error}") from None
