"""What several test files use: tiny encoders and pictures."""

import pytest
import torch

from openjepa.models.sizes import Size
from openjepa.models.vit import VisionTransformer

TINY = Size(dim=16, depth=2, num_heads=2, mlp_hidden=32, predictor_width=8, predictor_depth=2)


@pytest.fixture
def tiny_encoder() -> VisionTransformer:
    torch.manual_seed(0)
    return VisionTransformer(TINY, patch_size=4, image_size=(32, 32), patch_init=0.2)
