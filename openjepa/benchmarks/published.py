"""A program: training steps of the published I-JEPA code, from a checkout that the user provides. See reference.py.

`python -m openjepa.benchmarks.published DIR SHAPE`: then every line on stdin is answered by the seconds of one step. Only names
and signatures of that code appear here; its licence does not allow us to use its lines.
"""

import copy
import importlib
import json
import sys
import time
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

MOMENTUM = 0.996
DECAY = 0.04
LR = 1e-3


class Published:
    """Its encoder, predictor, target encoder, mask collator, loss, AdamW and moving average, and one batch of noise."""

    def __init__(self, shape: dict[str, Any]) -> None:
        networks = importlib.import_module("src.models.vision_transformer")
        self.apply_masks = importlib.import_module("src.masks.utils").apply_masks
        self.repeat = importlib.import_module("src.utils.tensors").repeat_interleave_batch
        self.batch_size = shape["batch_size"]
        common = {"mlp_ratio": 4.0, "qkv_bias": True, "norm_layer": partial(nn.LayerNorm, eps=1e-6)}
        torch.manual_seed(0)
        self.encoder = networks.VisionTransformer(
            img_size=[shape["image_size"]],
            patch_size=shape["patch_size"],
            embed_dim=shape["dim"],
            depth=shape["depth"],
            num_heads=shape["num_heads"],
            **common,
        )
        self.predictor = networks.VisionTransformerPredictor(
            num_patches=(shape["image_size"] // shape["patch_size"]) ** 2,
            embed_dim=shape["dim"],
            predictor_embed_dim=shape["predictor_width"],
            depth=shape["predictor_depth"],
            num_heads=shape["num_heads"],
            **common,
        )
        self.target = copy.deepcopy(self.encoder).requires_grad_(False)
        self.collator = _collator(shape)
        self.optimizer = torch.optim.AdamW(_groups(self.encoder, self.predictor), lr=LR)
        self.images = torch.randn(self.batch_size, 3, shape["image_size"], shape["image_size"])

    def step(self) -> tuple[float, float]:
        """Seconds of a step and of the masks in it."""
        began = time.perf_counter()
        _, contexts, targets = self.collator([0] * self.batch_size)
        masks = time.perf_counter() - began
        predicted = self.predictor(self.encoder(self.images, contexts), contexts, targets)
        loss = F.smooth_l1_loss(predicted, self._targets(contexts, targets))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self._follow()
        return time.perf_counter() - began, masks

    @torch.no_grad()
    def _targets(self, contexts: list[Tensor], targets: list[Tensor]) -> Tensor:
        whole = self.target(self.images)
        blocks = self.apply_masks(F.layer_norm(whole, whole.shape[-1:]), targets)
        return self.repeat(blocks, self.batch_size, repeat=len(contexts))

    @torch.no_grad()
    def _follow(self) -> None:
        for slow, fast in zip(self.target.parameters(), self.encoder.parameters(), strict=True):
            slow.mul_(MOMENTUM).add_(fast.detach(), alpha=1 - MOMENTUM)


def _collator(shape: dict[str, Any]) -> Any:
    """Constructor arguments by the published names."""
    return importlib.import_module("src.masks.multiblock").MaskCollator(
        input_size=(shape["image_size"], shape["image_size"]),
        patch_size=shape["patch_size"],
        enc_mask_scale=tuple(shape["context_scale"]),
        pred_mask_scale=tuple(shape["target_scale"]),
        aspect_ratio=tuple(shape["target_aspect"]),
        nenc=1,
        npred=shape["num_targets"],
        min_keep=shape["min_keep"],
        allow_overlap=False,
    )


def _groups(*networks: nn.Module) -> list[dict[str, Any]]:
    """Biases and one-dimensional weights are not decayed."""
    named = [pair for network in networks for pair in network.named_parameters() if pair[1].requires_grad]
    decayed = [p for name, p in named if p.ndim > 1 and "bias" not in name]
    others = [p for name, p in named if p.ndim == 1 or "bias" in name]
    return [{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]


def main() -> None:
    folder, shape = sys.argv[1:]
    sys.path.insert(0, folder)  # its modules import each other as src.…
    published = Published(json.loads(shape))
    print("ready", flush=True)
    for _ in sys.stdin:
        print(*published.step(), flush=True)


if __name__ == "__main__":
    main()
