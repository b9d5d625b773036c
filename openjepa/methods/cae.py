"""CAE (Chen et al., IJCV 2023): predict the latents of hidden patches from the visible ones, then their pixels.

A difference: the published decoder predicts the token ids of DALL-E's tokeniser, whose weights we cannot ship; here it predicts
normalised pixels, with a squared error instead of cross-entropy. Encoder, latent regressor and alignment are as published.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from openjepa.core.contracts import MaskOptions, Method, methods
from openjepa.core.numbers import NotNegative, Positive
from openjepa.core.types import Batch, EncoderNeeds, LossOutput, Masks, Step
from openjepa.masks import per_step
from openjepa.models.regressor import Regressor
from openjepa.models.vit import VisionTransformer
from openjepa.nn import init, positions
from openjepa.nn.block import LAYER_NORM_EPS, Block
from openjepa.nn.patches import normalised, patchify, pick


@methods.register("cae")
class CAE(Method):
    """The loss has two parts: pixels and, weighted by `alignment`, latents.

    >>> import openjepa, torch
    >>> from openjepa.core.types import Batch, Step
    >>> method = openjepa.method("cae", "vit-nano/8", image_size=32)
    >>> step = Step(index=0, total=10, seed=0, batch_size=2, rows=slice(0, 2))
    >>> output = method.training_step(Batch(torch.randn(2, 3, 32, 32), torch.arange(2)), step)
    >>> sorted(output.metrics)
    ['train/alignment', 'train/painting']
    """

    needs = EncoderNeeds(class_token=True)

    def __init__(
        self,
        encoder: VisionTransformer,
        *,
        masks: MaskOptions = {"name": "blockwise", "target_scale": 0.5},  # noqa: B006 - only read
        regressor_depth: Positive = 4,
        decoder_depth: Positive = 4,
        alignment: NotNegative = 2.0,  # weight of the latents' error
    ) -> None:
        super().__init__()
        self.backbone = encoder
        dim, heads = encoder.dim, encoder.size.num_heads
        self.regressor = Regressor(dim=dim, depth=regressor_depth, num_heads=heads)
        self.decoder = nn.Sequential(*(Block(dim, heads, encoder.size.mlp_hidden) for _ in range(decoder_depth)))
        self.paint = nn.Sequential(
            nn.LayerNorm(dim, eps=LAYER_NORM_EPS), nn.Linear(dim, encoder.patch_embed.in_features)
        )
        init.normal(self.decoder)
        init.normal(self.paint)
        self.draw_masks = per_step.build(masks, encoder.grid)
        self.alignment = alignment

    def training_step(self, batch: Batch, step: Step) -> LossOutput:
        masks = self.masks(step).to(batch.images.device)
        hidden = masks.targets.flatten(1)  # [B, T]
        scales = self.backbone.draw_drop_path(step)
        visible = self.backbone.encode(batch.images, masks.context, branch_scales=scales)  # [B, 1+K, D]
        predicted = self.regressor(visible, masks, self.backbone.grid)  # [B, T, D]
        alignment = F.mse_loss(predicted.float(), self.latents(batch.images, hidden))
        pixels = F.mse_loss(self.decode(predicted, hidden).float(), self.pixels(batch.images, hidden))
        metrics = {"train/alignment": alignment.detach(), "train/painting": pixels.detach()}
        return LossOutput(pixels + self.alignment * alignment, metrics)

    def masks(self, step: Step) -> Masks:
        return per_step.draw(self.draw_masks, step, self.backbone.grid)

    @torch.no_grad()
    def latents(self, images: Tensor, hidden: Tensor) -> Tensor:
        """-> [B, T, D]: the encoder's output for the hidden patches when it sees only them; no gradient."""
        return self.backbone(images, hidden).float()

    def decode(self, latents: Tensor, hidden: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, 3·p·p]: from the predicted latents alone; the decoder does not see the visible patches."""
        table = positions.sincos(self.backbone.grid, self.backbone.dim).to(latents.device)
        return self.paint(self.decoder(latents + table[hidden]))

    def pixels(self, images: Tensor, hidden: Tensor) -> Tensor:
        """-> [B, T, 3·p·p]: the hidden patches, each with mean 0 and variance 1."""
        return normalised(pick(patchify(images, self.backbone.patch_size), hidden))

    @property
    def encoder(self) -> nn.Module:
        return self.backbone
