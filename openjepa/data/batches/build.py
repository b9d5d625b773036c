"""From a Config to the loader that training reads."""

import torch

from openjepa.core.config import Config
from openjepa.core.contracts import Source
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
