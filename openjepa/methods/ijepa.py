"""I-JEPA (Assran et al., CVPR 2023): predict the representations of several target blocks of an image from one context block.

A context encoder sees a few patches. A target encoder, its moving average, sees the whole image. A predictor gets the positions
of the targets and predicts the target encoder's output there. The loss compares no pixels, and there are no augmented views.
Where the published code, the paper and this file differ: docs/reference.md.
"""

import copy
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from openjepa.core import schedule
from openjepa.core.contracts import MaskOptions, Method, methods
from openjepa.core.errors import BadInput
from openjepa.core.numbers import Positive, Share
from openjepa.core.types import Batch, LossOutput, Masks, Predictions, Step
from openjepa.masks import per_step
from openjepa.models.centering import Centering
from openjepa.models.predictor import PredictorOptions
from openjepa.models.vit import VisionTransformer
from openjepa.nn import ema
from openjepa.nn.patches import patchify, pick


@methods.register("ijepa")
class IJEPA(Method):
    """The paper's method with its ablations as options.

    >>> import openjepa, torch
    >>> from openjepa.core.types import Batch, Step
    >>> method = openjepa.method("ijepa", "vit-nano/8", image_size=32)
    >>> step = Step(index=0, total=10, seed=0, batch_size=2, rows=slice(0, 2))
    >>> output = method.training_step(Batch(torch.randn(2, 3, 32, 32), torch.arange(2)), step)
    >>> output.loss.shape, output.predictions.predicted.shape  # 4 target blocks of 2 patches
    (torch.Size([]), torch.Size([2, 4, 2, 64]))
    >>> method.encoder is method.target_encoder
    True
    """

    def __init__(
        self,
        encoder: VisionTransformer,
        *,
        masks: MaskOptions = {"name": "multiblock"},  # noqa: B006 - only read
        predictor: PredictorOptions = PredictorOptions(),  # noqa: B008 - frozen
        loss: Literal["smooth_l1", "l2"] = "smooth_l1",
        targets: Literal["encoder", "pixels"] = "encoder",
        target_masking: Literal["output", "input"] = "output",
        target_blocks: Positive | Literal["all"] = 1,
        target_centering: Literal["none", "position", "whiten"] = "none",
        num_contexts: Positive = 1,
        momentum: tuple[Share, Share] = (0.996, 1.0),
    ) -> None:
        super().__init__()
        self.target_blocks = _number(target_blocks, encoder)
        _check_targets(
            encoder,
            num_blocks=self.target_blocks,
            is_centred=target_centering != "none",
            of_whole_images=targets == "encoder" and target_masking == "output",
        )
        self.context_encoder = encoder
        self.target_encoder = copy.deepcopy(encoder).requires_grad_(False)
        predicts_pixels = targets == "pixels"
        self.predictor = predictor.build(encoder, encoder.patch_embed.in_features if predicts_pixels else encoder.dim)
        self.draw_masks = per_step.build(masks, encoder.grid)
        self.loss = loss
        self.target_kind = targets
        self.target_masking = target_masking
        self.num_contexts = num_contexts  # draws of masks per image; they share one pass of the target encoder
        self.momentum = momentum
        self.centring: Centering | None = None  # this spelling is a key in checkpoints, so it stays
        if target_centering != "none":
            self.centring = Centering(encoder.grid.size, encoder.dim, target_centering)

    def training_step(self, batch: Batch, step: Step) -> LossOutput:
        on_cpu = self.masks(step)  # of B images, or of B·C with C contexts per image, image by image
        masks = on_cpu.to(batch.images.device)
        targets = self.targets(batch.images, masks)  # [B, M, T, D]
        predictions = self.predict(batch, masks, step)  # [B, M, T, D]
        loss = self.distance(predictions, targets)
        sizes = {"masks/context_patches": _context_size(on_cpu), "masks/target_patches": float(masks.targets.shape[2])}
        detached = Predictions(predicted=predictions.detach(), target=targets.detach(), index=masks.targets)
        return LossOutput(loss, sizes, detached)

    def masks(self, step: Step) -> Masks:
        return per_step.draw(self.draw_masks, step, self.context_encoder.grid, self.num_contexts)

    @torch.no_grad()
    def targets(self, images: Tensor, masks: Masks) -> Tensor:
        """[B, 3, h, w] -> [B, M, T, D]: the target encoder's output (or the pixels) at the target blocks."""
        if self.target_kind == "pixels":
            patches = _at_targets(patchify(images, self.target_encoder.patch_size), masks)  # [B, M, T, 3·p·p]
            return F.layer_norm(patches.float(), patches.shape[-1:])  # normalised patch by patch, as in MAE
        if self.target_masking == "input":
            return _normalised(self._targets_encoded_alone(images, masks))
        tokens = self._target_tokens(images)  # [B, N, D]
        if self.centring is not None:
            tokens = self.centring(tokens)
        return _at_targets(_normalised(tokens), masks)

    def predict(self, batch: Batch, masks: Masks, step: Step) -> Tensor:
        """-> [B, M, T, D], with drop path; a separate prediction from each of an image's C contexts."""
        number = len(masks.context) // len(batch.images)
        images = batch.images.repeat_interleave(number, dim=0) if number > 1 else batch.images
        return self.predict_blocks(images, masks, self.context_encoder.draw_drop_path(step, number=number))

    def predict_blocks(self, images: Tensor, masks: Masks, branch_scales: Tensor | None = None) -> Tensor:
        """-> [B, M, T, D]: the context encoder sees only context patches, the predictor only its output and the positions."""
        encoder = self.context_encoder
        context = encoder(images, masks.context, valid=masks.context_valid, branch_scales=branch_scales)  # [B, K, D]
        return self.predictor(context, masks, encoder.grid)

    def distance(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """[B, M, T, D] twice -> scalar, the mean over everything; in float32 also under autocast."""
        distance = F.smooth_l1_loss if self.loss == "smooth_l1" else F.mse_loss
        return distance(predictions.float(), targets)

    def after_update(self, step: Step) -> None:
        ema.follow(self.target_encoder, self.context_encoder, schedule.linear(step.progress, *self.momentum))
        if self.centring is not None:
            self.centring.update(step.index)

    @property
    def encoder(self) -> VisionTransformer:
        return self.target_encoder

    @property
    def learner(self) -> VisionTransformer:
        return self.context_encoder

    @classmethod
    def complete(cls, options: dict[str, Any], encoder: nn.Module) -> dict[str, Any]:
        assert isinstance(encoder, VisionTransformer)
        num_blocks = _number(options["target_blocks"], encoder)
        return {**options, "predictor": options["predictor"].completed(encoder), "target_blocks": num_blocks}

    def _target_tokens(self, images: Tensor) -> Tensor:
        """-> [B, N, D]: the target encoder's output or, with target_blocks K > 1, the mean of its last K blocks (data2vec).

        Early blocks stay close to the content of a patch. With them in the average small models do not collapse.
        """
        if self.target_blocks == 1:
            return self.target_encoder(images)
        blocks = list(self.target_encoder.layers(images))[-self.target_blocks :]
        return torch.stack([_normalised(tokens) for tokens in blocks]).mean(dim=0)

    def _targets_encoded_alone(self, images: Tensor, masks: Masks) -> Tensor:
        """The ablation of table 11: each block goes through the target encoder alone -> [B, M, T, D]."""
        num_blocks = masks.targets.shape[1]
        images = images.repeat_interleave(len(masks.targets) // len(images), dim=0)
        blocks = [self.target_encoder(images, masks.targets[:, block]) for block in range(num_blocks)]
        return torch.stack(blocks, dim=1)


def _number(blocks: int | Literal["all"], encoder: VisionTransformer) -> int:
    return len(encoder.blocks) if blocks == "all" else blocks


def _check_targets(encoder: VisionTransformer, *, num_blocks: int, is_centred: bool, of_whole_images: bool) -> None:
    """Averaging blocks and centering work on the tokens of whole images; elsewhere they would silently do nothing."""
    if num_blocks > len(encoder.blocks):
        raise BadInput(
            f"target_blocks is {num_blocks}, but the encoder has {len(encoder.blocks)} blocks; use at most that many, or all"
        )
    if (num_blocks > 1 or is_centred) and not of_whole_images:
        raise BadInput(
            "target_blocks and target_centering need targets=encoder with target_masking=output; "
            "otherwise set target_blocks=1 and target_centering=none"
        )


def _normalised(tokens: Tensor) -> Tensor:
    """Layer norm without parameters over the channels: the scale of targets cannot collapse. In the code, not the paper."""
    return F.layer_norm(tokens.float(), tokens.shape[-1:])


def _at_targets(tokens: Tensor, masks: Masks) -> Tensor:
    """[B, N, D] of images -> [B·C, M, T, D]: all C draws of masks of an image use its tokens."""
    index = masks.targets.unflatten(0, (len(tokens), -1))  # [B, C, M, T]
    return pick(tokens, index).flatten(0, 1)


def _context_size(masks: Masks) -> float:
    if masks.context_valid is None:
        return float(masks.context.shape[1])
    return masks.context_valid.sum().item() / len(masks.context)
