"""`bench step --reference` against an imitation of a checkout: the same file names and signatures, none of its code."""

from pathlib import Path

import pytest

from openjepa.benchmarks import load, reference
from openjepa.core.errors import BadInput, OpenJepaError

NETWORKS = """
import torch
from torch import nn
from src.masks.utils import apply_masks


class VisionTransformer(nn.Module):
    def __init__(self, img_size=[224], patch_size=16, in_chans=3, embed_dim=768, depth=12, num_heads=12, mlp_ratio=4.0,
                 qkv_bias=True, norm_layer=nn.LayerNorm, **kwargs):
        super().__init__()
        self.patches = nn.Conv2d(3, embed_dim, patch_size, patch_size)
        self.norm = norm_layer(embed_dim)

    def forward(self, x, masks=None):
        x = self.norm(self.patches(x).flatten(2).transpose(1, 2))
        return x if masks is None else apply_masks(x, masks)


class VisionTransformerPredictor(nn.Module):
    def __init__(self, num_patches, embed_dim=768, predictor_embed_dim=384, depth=6, num_heads=12, mlp_ratio=4.0,
                 qkv_bias=True, norm_layer=nn.LayerNorm, **kwargs):
        super().__init__()
        self.positions = nn.Parameter(torch.zeros(1, num_patches, embed_dim))
        self.out = nn.Linear(embed_dim, embed_dim)

    def forward(self, x, masks_x, masks):
        batch_size = len(x) // len(masks_x)
        asked = apply_masks(self.positions.expand(batch_size, -1, -1), masks)
        return self.out(x.mean(1, keepdim=True).repeat(len(masks), 1, 1) + asked)
"""
MASKS = """
import torch


class MaskCollator:
    def __init__(self, input_size=(224, 224), patch_size=16, enc_mask_scale=(0.2, 0.8), pred_mask_scale=(0.2, 0.8),
                 aspect_ratio=(0.3, 3.0), nenc=1, npred=2, min_keep=4, allow_overlap=False):
        self.num_patches = (input_size[0] // patch_size) * (input_size[1] // patch_size)
        self.nenc, self.npred = nenc, npred

    def __call__(self, batch):
        draw = lambda size: torch.stack([torch.randperm(self.num_patches)[:size] for _ in batch])
        return torch.tensor(batch), [draw(5) for _ in range(self.nenc)], [draw(3) for _ in range(self.npred)]
"""
FILES = {
    "src/models/vision_transformer.py": NETWORKS,
    "src/masks/multiblock.py": MASKS,
    "src/masks/utils.py": """
import torch


def apply_masks(x, masks):
    return torch.cat([x.gather(1, mask[:, :, None].expand(-1, -1, x.shape[2])) for mask in masks])
""",
    "src/utils/tensors.py": """
def repeat_interleave_batch(x, B, repeat):
    return x
""",
}
WORDS = ["model.name=vit-nano/8", "data.image_size=32", "train.batch_size=4"]

pytestmark = pytest.mark.slow


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_both_take_turns_and_the_ratio_is_that_of_their_speeds(checkout: Path) -> None:
    row = reference.against(WORDS, checkout, num_steps=3)
    assert row["ratio"] == pytest.approx(row["openjepa, images/s"] / row["published, images/s"], rel=0.01)
    assert row["ratio without the published masks"] <= row["ratio"]


def test_a_missing_file_is_named_before_anything_starts(checkout: Path) -> None:
    (checkout / "src/masks/multiblock.py").unlink()
    with pytest.raises(BadInput, match=r"not a checkout .* src/masks/multiblock.py is missing; clone"):
        reference.against(WORDS, checkout, num_steps=1)


def test_code_that_fails_is_reported_in_one_sentence(checkout: Path) -> None:
    (checkout / "src/utils/tensors.py").write_text("raise RuntimeError('it needs another version')")
    with pytest.raises(OpenJepaError, match="the published code failed: RuntimeError: it needs another version"):
        reference.against(WORDS, checkout, num_steps=1)


def test_other_methods_have_no_published_code_here(checkout: Path) -> None:
    with pytest.raises(BadInput, match="method ijepa with multiblock masks"):
        reference.against([*WORDS, "method.name=simclr"], checkout, num_steps=1)


def test_speed_beside_a_busy_core_is_measured_in_the_processes_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "SECONDS", 0.01)
    row = load.beside_load([*WORDS, "train.processes=2"], num_rounds=1)
    assert row["arrangement"].startswith("2 processes") and row["beside one busy core, images/s"] > 0
    assert row["ratio"] == pytest.approx(row["beside one busy core, images/s"] / row["quiet, images/s"], rel=0.01)
