"""How many pictures a run will learn from, also when they are on another machine."""

from pathlib import Path

from openjepa.core.config import Config
from openjepa.core.errors import BadInput
from openjepa.data.open import open_source

IMAGENET_1K = 1_281_167  # training pictures, Russakovsky et al. 2015
IMAGENET_22K = 14_197_122  # image-net.org, autumn 2011
KNOWN_FOLDERS = {"imagenet22k": IMAGENET_22K, "imagenet-22k": IMAGENET_22K}


def num_images(config: Config, given: int | None) -> tuple[int, str]:
    """-> (number, where it comes from): as given, counted, or the published number of a data set that is not here."""
    if given is not None:
        return given, "given"
    source = config.data.source
    try:
        return len(open_source(source, image_size=config.data.height_width)), "counted"
    except BadInput as error:
        published = _published(source)
        if published is None:
            raise BadInput(f"{error}; or say how many pictures there are with --images") from None
        return published, "published; the data is not on this machine"


def _published(source: str) -> int | None:
    if source.startswith("imagenet:"):
        return IMAGENET_1K
    return KNOWN_FOLDERS.get(Path(source).name.lower())
