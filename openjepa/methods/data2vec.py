"""data2vec (Baevski et al., ICML 2022), the image version: predict the mean of a teacher's last blocks at hidden patches.

The student sees mask tokens instead of hidden patches; the teacher, its moving average, sees everything. Differs from the
published code in the encoder (fixed positions instead of a relative bias, no layer scale) and has no colour jitter.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from openjepa.core import schedule
from openjepa.core.contracts import MaskOptions, Method, methods
from openjepa.core.numbers import Above, Positive, Share
from openjepa.core.types import Batch, EncoderNeeds, LossOutput, Masks, Predictions, Step
from openjepa.masks import per_step
from openjepa.models.vit import VisionTransformer
from openjepa.nn import ema, init
from openjepa.nn.patches import pick


@methods.register("data2vec")
class Data2Vec(Method):
    """`beta` is where the loss turns from a square to a line.

    >>> import openjepa, torch
    >>> from openjepa.core.types import Batch, Step
    >>> method = openjepa.method("data2vec", "vit-nano/8", image_size=32)
    >>> step = Step(index=0, total=10, seed=0, batch_size=2, rows=slice(0, 2))
    >>> output = method.training_step(Batch(torch.randn(2, 3, 32, 32), torch.arange(2)), step)
    >>> output.predictions.predicted.shape  # one prediction for each of 10 hidden patches
    torch.Size([2, 1, 10, 64])
    """

    needs = EncoderNeeds(class_token=True, mask_token=True)

    def __init__(
        self,
        encoder: VisionTransformer,
        *,
        masks: MaskOptions = {"name": "blockwise", "target_scale": 120 / 196},  # noqa: B006 - only read
        target_blocks: Positive = 6,  # or all of them, if there are fewer
        beta: Above = 2.0,  # where the loss turns from a square to a line
        momentum: tuple[Share, Share] = (0.999, 0.9998),  # published: constant 0.9998, or annealed like this
    ) -> None:
        super().__init__()
        self.student = encoder
        self.teacher = copy.deepcopy(encoder).requires_grad_(False)
        self.head = nn.Linear(encoder.dim, encoder.dim)
        init.normal(self.head)
        self.draw_masks = per_step.build(masks, encoder.grid)
        self.target_blocks = target_blocks
        self.beta = beta
        self.momentum = momentum

    def training_step(self, batch: Batch, step: Step) -> LossOutput:
        masks = self.masks(step).to(batch.images.device)
        hidden = masks.targets.flatten(1)  # [B, T]
        targets = pick(self.targets(batch.images), hidden)  # [B, T, D]
        predictions = self.predict(batch.images, hidden, step)  # [B, T, D]
        loss = self.distance(predictions, targets)
        detached = Predictions(predicted=predictions.detach()[:, None], target=targets[:, None], index=masks.targets)
        return LossOutput(loss, predictions=detached)

    def masks(self, step: Step) -> Masks:
        return per_step.draw(self.draw_masks, step, self.student.grid)

    @torch.no_grad()
    def targets(self, images: Tensor) -> Tensor:
        """[B, 3, h, w] -> [B, N, D]: the teacher's last blocks, each normalised, averaged, normalised again."""
        blocks = list(self.teacher.layers(images))[-self.target_blocks :]
        patches = [_normalised(tokens[:, self.teacher.num_class :]) for tokens in blocks]
        return _normalised(torch.stack(patches).mean(dim=0))

    def predict(self, images: Tensor, hidden: Tensor, step: Step) -> Tensor:
        """-> [B, T, D]"""
        is_hidden = torch.zeros(len(images), self.student.grid.size, dtype=torch.bool, device=images.device)
        is_hidden.scatter_(1, hidden, True)  # [B, N]
        tokens = self.student.encode(images, hidden=is_hidden, branch_scales=self.student.draw_drop_path(step))
        return self.head(pick(tokens[:, self.student.num_class :], hidden))

    def distance(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """[..., D] twice -> scalar, in float32 also under autocast."""
        return F.smooth_l1_loss(predictions.float(), targets, beta=self.beta)

    def after_update(self, step: Step) -> None:
        ema.follow(self.teacher, self.student, schedule.linear(step.progress, *self.momentum))

    @property
    def encoder(self) -> nn.Module:
        return self.teacher

    @property
    def learner(self) -> nn.Module:
        return self.student


def _normalised(tokens: Tensor) -> Tensor:
    return F.layer_norm(tokens.float(), tokens.shape[-1:])
