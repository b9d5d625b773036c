"""The paper's claim about time (in its abstract), and the share of the GPUs' peak that it implies.

ViT-H/14, 300 epochs of ImageNet-1k, in under 72 hours on 16 A100.
"""

from openjepa.planning.data import IMAGENET_1K
from openjepa.planning.gpus import GPUS

HOURS = 72
NUM_GPUS = 16
EPOCHS = 300
BATCH_SIZE = 2048
FLOPS = 634.2e9  # per image, of the recipe imagenet/vit_h14; tests/planning/test_plan.py counts it again


def implied_utilisation() -> float:
    """At least this share of the peak was reached, if the claim holds."""
    num_images = EPOCHS * (IMAGENET_1K // BATCH_SIZE) * BATCH_SIZE
    return num_images * FLOPS / (3600 * HOURS * NUM_GPUS * GPUS["a100-80"].peak("bfloat16"))


def sentence() -> str:
    return (
        f"the published claim, ViT-H/14 for {EPOCHS} epochs of ImageNet-1k on {NUM_GPUS} A100 in under {HOURS} h, implies "
        f"{100 * implied_utilisation():.1f} % of the peak or more"
    )
