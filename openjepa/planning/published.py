"""Published numbers behind a plan: the sizes of data sets, and the paper's claim about time with the utilisation it implies.

The claim (abstract): ViT-H/14, 300 epochs of ImageNet-1k, in under 72 hours on 16 A100.
"""

from pathlib import Path

from openjepa.core.config import Config
from openjepa.core.errors import BadInput
from openjepa.data.open import open_source
from openjepa.planning.gpus import GPUS

IMAGENET_1K = 1_281_167  # training images, Russakovsky et al. 2015
IMAGENET_22K = 14_197_122  # image-net.org, autumn 2011
KNOWN_FOLDERS = {"imagenet22k": IMAGENET_22K, "imagenet-22k": IMAGENET_22K}

HOURS = 72
NUM_GPUS = 16
EPOCHS = 300
BATCH_SIZE = 2048
FLOPS = 634.2e9  # per image, of the recipe imagenet/vit_h14; tests/planning/test_plan.py counts it again


def num_images(config: Config, number: int | None) -> tuple[int, str]:
    """-> (number of training images, its source): set by the user, counted, or published if the data is not here."""
    if number is not None:
        return number, "set with --images"
    source = config.data.source
    try:
        return len(open_source(source, image_size=config.data.height_width)), "counted"
    except BadInput as error:
        published = _published(source)
        if published is None:
            raise BadInput(f"{error}; or set the number of images with --images") from None
        return published, "published; the data is not on this machine"


def _published(source: str) -> int | None:
    if source.startswith("imagenet:"):
        return IMAGENET_1K
    return KNOWN_FOLDERS.get(Path(source).name.lower())


def implied_utilisation() -> float:
    """The share of the peak that the published run reached at least, if the claim is true."""
    images = EPOCHS * (IMAGENET_1K // BATCH_SIZE) * BATCH_SIZE
    return images * FLOPS / (3600 * HOURS * NUM_GPUS * GPUS["a100-80"].peak("bfloat16"))


def sentence() -> str:
    return (
        f"the published claim, ViT-H/14 for {EPOCHS} epochs of ImageNet-1k on {NUM_GPUS} A100 in under {HOURS} h, implies "
        f"{100 * implied_utilisation():.1f} % of the peak or more"
    )
