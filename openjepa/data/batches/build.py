"""From a source to its images, and from a Config to the loader that training reads."""

import torch

from openjepa.core.config import Config
from openjepa.core.contracts import Source
from openjepa.core.errors import BadInput
from openjepa.core.types import Augmentation
from openjepa.data.abilities import has_files
from openjepa.data.batches.from_arrays import ArrayImages
from openjepa.data.batches.from_files import FileImages
from openjepa.data.batches.images import Cache, Images
from openjepa.data.batches.loader import Loader
from openjepa.data.batches.order import Order, Split
from openjepa.data.crops.crop import Crops, RandomCrop
from openjepa.machine import distributed
from openjepa.machine.console import Track


def open_images(
    source: Source, crops: Crops, *, cache: Cache = "none", num_workers: int = 0, track: Track | None = None
) -> Images:
    """The images of any source, cropped in batches: files one by one in worker processes, arrays a batch at a time."""
    if has_files(source):
        return FileImages(source, crops, cache=cache, num_workers=num_workers, track=track)
    return ArrayImages(source, crops, cache=cache, num_workers=num_workers, track=track)


def check_data(config: Config, source: Source) -> None:
    """Raises, before anything is decoded, if the cache does not suit the source or batches cannot be filled or shared."""
    if config.data.cache == "disk" and not has_files(source):
        raise BadInput(
            f"data.cache is disk, but {config.data.source} has no image files; leave it out, or use memory or none"
        )
    Order(len(source), config.train.batch_size, config.seed)
    _split(config)


def loader(
    config: Config,
    source: Source,
    device: torch.device,
    augmentations: tuple[Augmentation, ...] = (),
    track: Track | None = None,
) -> Loader:
    data = config.data
    images = open_images(source, _crops(config, augmentations), cache=data.cache, num_workers=data.workers, track=track)
    return Loader(
        images=images,
        order=Order(len(source), config.train.batch_size, config.seed),
        split=_split(config),
        seed=config.seed,
        max_broken=data.max_broken,
        device=device,
        augmentations=augmentations,
    )


def _split(config: Config) -> Split:
    return Split(
        batch_size=config.train.batch_size,
        accumulate=config.train.accumulate,
        rank=distributed.rank(),
        world_size=distributed.world_size(),
    )


def _crops(config: Config, augmentations: tuple[Augmentation, ...]) -> Crops:
    """What is cut out of every image: a view for each augmentation, or the one crop of the data section."""
    data = config.data
    if not augmentations:
        return (RandomCrop(size=data.height_width, scale=data.crop_scale, aspect=data.crop_aspect, flip=data.flip),)
    return tuple(
        RandomCrop(size=view.size, scale=view.scale, aspect=view.aspect, flip=view.flip) for view in augmentations
    )
