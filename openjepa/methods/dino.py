"""DINO (Caron et al., ICCV 2021): a student sees large and small views and must match its teacher's output for the large ones.

Outputs are distributions over many prototypes. The teacher, a moving average, is centered (no prototype always wins) and
sharpened (no uniform output); only both together prevent collapse. Differs from the published code: fixed, stretched positions
instead of learned, interpolated ones; `optim.clip` clips the gradient of all weights together, not of each tensor.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from openjepa.core import schedule
from openjepa.core.contracts import Method, methods
from openjepa.core.numbers import Above, Share
from openjepa.core.types import Augmentation, Batch, EncoderNeeds, LossOutput, Step
from openjepa.machine.precision import full_precision
from openjepa.models.heads import PrototypeOptions, information
from openjepa.models.multicrop import NUM_GLOBAL, MultiCrop
from openjepa.models.running_mean import RunningMean
from openjepa.models.vit import VisionTransformer
from openjepa.nn import ema

CENTRE_MOMENTUM = 0.9


@methods.register("dino")
class DINO(Method):
    """The first two views are large, the others small.

    >>> import openjepa, torch
    >>> from openjepa.core.types import Batch, Step
    >>> method = openjepa.method("dino", "vit-nano/8", image_size=32)
    >>> step = Step(index=0, total=10, seed=0, batch_size=2, rows=slice(0, 2))
    >>> views = tuple(torch.randn(2, 3, *view.size) for view in method.augmentations)
    >>> output = method.training_step(Batch(views[0], torch.arange(2), views), step)
    >>> [view.size for view in method.augmentations[1:3]], list(output.metrics)
    ([(32, 32), (16, 16)], ['train/information'])
    """

    needs = EncoderNeeds(class_token=True, stretched_positions=True, pools_class=True)

    def __init__(
        self,
        encoder: VisionTransformer,
        *,
        crops: MultiCrop = MultiCrop(),  # noqa: B008 - frozen
        head: PrototypeOptions = PrototypeOptions(published=65536),  # noqa: B008 - frozen
        student_temperature: Above = 0.1,
        teacher_temperature: tuple[Above, Above] = (0.04, 0.07),  # from, to …
        temperature_warmup: Share = 0.3,  # … during this share of the run (published: 30 of 100 epochs)
        frozen: Share = 0.01,  # share of the run in which the prototypes stay (published: 1 of 100 epochs)
        momentum: Share = 0.996,  # at the start; it ends at 1
    ) -> None:
        super().__init__()
        self.student = encoder
        self.student_head = head.build(encoder)
        self.teacher = copy.deepcopy(encoder).requires_grad_(False)
        self.teacher_head = copy.deepcopy(self.student_head).requires_grad_(False)
        self.centre = RunningMean(self.student_head.num_prototypes, CENTRE_MOMENTUM)
        self.views = crops.views(encoder)
        self.student_temperature = student_temperature
        self.teacher_temperature = teacher_temperature
        self.temperature_warmup = temperature_warmup
        self.frozen = frozen
        self.momentum = momentum

    @property
    def augmentations(self) -> tuple[Augmentation, ...]:
        return self.views

    def training_step(self, batch: Batch, step: Step) -> LossOutput:
        targets = self.teacher_choices(batch.views[:NUM_GLOBAL], step)  # [2, B, prototypes]
        scores = self.student_scores(batch.views, step)  # [views, B, prototypes]
        loss = cross_view(targets, scores / self.student_temperature)
        return LossOutput(loss, {"train/information": information(targets)})

    @torch.no_grad()
    def teacher_choices(self, views: tuple[Tensor, ...], step: Step) -> Tensor:
        """[B, 3, h, w] each -> [2, B, prototypes], probabilities: centered with the mean before this step, then sharpened."""
        tokens = self.teacher.encode(torch.cat(views))[:, 0]  # [2·B, D]
        scores = self.teacher_head(tokens)
        if self.training:
            self.centre.collect(scores)
        temperature = warmed(step.progress, self.temperature_warmup, self.teacher_temperature)
        return ((scores - self.centre.mean) / temperature).softmax(dim=-1).unflatten(0, (len(views), -1))

    def student_scores(self, views: tuple[Tensor, ...], step: Step) -> Tensor:
        """-> [views, B, prototypes]. Views of one size go through the student together."""
        is_frozen = step.progress < self.frozen
        scores = []
        for name, group in (("large", views[:NUM_GLOBAL]), ("small", views[NUM_GLOBAL:])):
            if group:
                scales = self.student.draw_drop_path(step, f"drop path {name}", len(group), by_view=True)
                tokens = self.student.encode(torch.cat(group), branch_scales=scales)[:, 0]  # [views·B, D]
                scores.append(self.student_head(tokens, is_frozen=is_frozen).unflatten(0, (len(group), -1)))
        return torch.cat(scores)

    def after_update(self, step: Step) -> None:
        momentum = schedule.cosine(step.progress, self.momentum, 1.0)
        ema.follow(self.teacher, self.student, momentum)
        ema.follow(self.teacher_head, self.student_head, momentum)
        self.centre.update()

    @property
    def encoder(self) -> nn.Module:
        return self.teacher

    @property
    def learner(self) -> nn.Module:
        return self.student

    @classmethod
    def complete(cls, options: dict[str, Any], encoder: nn.Module) -> dict[str, Any]:
        assert isinstance(encoder, VisionTransformer)
        return {**options, "crops": options["crops"].completed(encoder), "head": options["head"].completed(encoder)}


def cross_view(targets: Tensor, scores: Tensor) -> Tensor:
    """[2, B, P] probabilities, [views, B, P] scores -> scalar: the mean cross-entropy over all pairs of different views."""
    logs = scores.log_softmax(dim=-1)
    with full_precision(logs):
        pairs = -torch.einsum("tbp,vbp->tv", targets, logs) / targets.shape[1]  # [2, views]
    same = torch.eye(*pairs.shape, dtype=torch.bool, device=pairs.device)
    return pairs[~same].mean()


def warmed(progress: float, warmup: float, temperatures: tuple[float, float]) -> float:
    """Linear during the warm-up, then the second one."""
    return schedule.linear(min(progress / warmup, 1.0) if warmup else 1.0, *temperatures)
