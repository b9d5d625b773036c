"""What several test files use: a tiny encoder and a cache of their own."""

import os
from collections.abc import Iterator

import pytest
import torch

from openjepa.models.sizes import Size
from openjepa.models.vit import VisionTransformer

TINY = Size(dim=16, depth=2, num_heads=2, mlp_hidden=32, predictor_width=8, predictor_depth=2)


@pytest.fixture
def tiny_encoder() -> VisionTransformer:
    torch.manual_seed(0)
    return VisionTransformer(TINY, patch_size=4, image_size=(32, 32), patch_init=0.2)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the cache of the user who runs it."""
    before = os.environ.get("OPENJEPA_CACHE")
    os.environ["OPENJEPA_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["OPENJEPA_CACHE"]
    else:
        os.environ["OPENJEPA_CACHE"] = before
