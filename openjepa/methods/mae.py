"""MAE (He et al., CVPR 2022): hide three quarters of the patches, encode the rest, predict the pixels of the hidden ones.

The target is the image itself, each patch normalised by its own mean and deviation. No teacher, no views.
Differs from the published code in the encoder's initial weights (normal instead of Xavier) and in the decoder of small encoders.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from openjepa.core.contracts import MaskOptions, Method, methods
from openjepa.core.numbers import Positive
from openjepa.core.types import Batch, EncoderNeeds, LossOutput, Masks, Step
from openjepa.masks import per_step
from openjepa.models.decoder import Decoder
from openjepa.models.vit import VisionTransformer
from openjepa.nn.patches import normalised, patchify, pick

PUBLISHED = (512, 8, 16)  # width, depth and heads of the decoder, for ViT-B and larger
PUBLISHED_FROM = 768  # encoder width


@dataclass(frozen=True)
class DecoderOptions:
    width: Positive | None = None  # None: 512 × 8 for base and larger, else the encoder's × 2
    depth: Positive | None = None
    num_heads: Positive | None = None
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, never changed

    def completed(self, encoder: VisionTransformer) -> "DecoderOptions":
        is_large = encoder.dim >= PUBLISHED_FROM
        width, depth, heads = PUBLISHED if is_large else (encoder.dim, 2, encoder.size.num_heads)
        return replace(self, width=self.width or width, depth=self.depth or depth, num_heads=self.num_heads or heads)

    def build(self, encoder: VisionTransformer, output_dim: int) -> Decoder:
        options = self.completed(encoder)
        assert options.width and options.depth and options.num_heads
        return Decoder(
            dim=encoder.dim,
            width=options.width,
            depth=options.depth,
            num_heads=options.num_heads,
            output_dim=output_dim,
        )


@methods.register("mae")
class MAE(Method):
    """The decoder is used in training only.

    >>> import openjepa, torch
    >>> from openjepa.core.types import Batch, Step
    >>> method = openjepa.method("mae", "vit-nano/8", image_size=32)
    >>> step = Step(index=0, total=10, seed=0, batch_size=2, rows=slice(0, 2))
    >>> output = method.training_step(Batch(torch.randn(2, 3, 32, 32), torch.arange(2)), step)
    >>> masks = method.masks(step)
    >>> masks.context.shape, output.loss.shape  # 4 of 16 patches are visible
    (torch.Size([2, 4]), torch.Size([]))
    """

    needs = EncoderNeeds(class_token=True)  # evaluation uses the mean over patches: no loss trains the class token

    def __init__(
        self,
        encoder: VisionTransformer,
        *,
        masks: MaskOptions = {"name": "random", "target_scale": 0.75},  # noqa: B006 - only read
        decoder: DecoderOptions = DecoderOptions(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__()
        self.backbone = encoder
        self.decoder = decoder.build(encoder, output_dim=encoder.patch_embed.in_features)
        self.draw_masks = per_step.build(masks, encoder.grid)

    def training_step(self, batch: Batch, step: Step) -> LossOutput:
        masks = self.masks(step).to(batch.images.device)
        scales = self.backbone.draw_drop_path(step)
        latents = self.backbone.encode(batch.images, masks.context, branch_scales=scales)  # [B, 1+K, D]
        predicted = self.decoder(latents, masks, self.backbone.grid)  # [B, T, 3·p·p]
        return LossOutput(F.mse_loss(predicted.float(), self.targets(batch.images, masks)))

    def masks(self, step: Step) -> Masks:
        return per_step.draw(self.draw_masks, step, self.backbone.grid)

    def targets(self, images: Tensor, masks: Masks) -> Tensor:
        """[B, 3, h, w] -> [B, T, 3·p·p]: the hidden patches, each with mean 0 and variance 1."""
        return normalised(pick(patchify(images, self.backbone.patch_size), masks.targets.flatten(1)))

    @property
    def encoder(self) -> nn.Module:
        return self.backbone

    @classmethod
    def complete(cls, options: dict[str, Any], encoder: nn.Module) -> dict[str, Any]:
        assert isinstance(encoder, VisionTransformer)
        return {**options, "decoder": options["decoder"].completed(encoder)}
