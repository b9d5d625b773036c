"""DINO (Caron et al., ICCV 2021): a student sees large and small views and must answer as its teacher does for the large ones.

Answers are soft choices among many prototypes. The teacher, a moving average, is centred (no prototype wins always) and
sharpened (not all win alike); both together keep the two from agreeing on nothing. Fixed, stretched positions instead of learned,
interpolated ones; gradients are clipped by `optim.clip` over all weights, not tensor by tensor.
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
        taught = self.teach(batch.views[:NUM_GLOBAL], step)  # [2, B, prototypes]
        answers = self.answer(batch.views, step)  # [views, B, prototypes]
        loss = cross_view(taught, answers / self.student_temperature)
        return LossOutput(loss, {"train/information": information(taught)})

    @torch.no_grad()
    def teach(self, views: tuple[Tensor, ...], step: Step) -> Tensor:
        """[B, 3, h, w] each -> [2, B, prototypes], probabilities: centred with the mean before this step, then sharpened."""
        tokens = self.teacher.encode(torch.cat(views))[:, 0]  # [2·B, D]
        scores = self.teacher_head(tokens)
        if self.training:
            self.centre.note(scores)
        temperature = warmed(step.progress, self.temperature_warmup, self.teacher_temperature)
        return ((scores - self.centre.mean) / temperature).softmax(dim=-1).unflatten(0, (len(views), -1))

    def answer(self, views: tuple[Tensor, ...], step: Step) -> Tensor:
        """-> [views, B, prototypes], scores. Views of one size go through the student together."""
        is_frozen = step.progress < self.frozen
        answers = []
        for name, group in (("large", views[:NUM_GLOBAL]), ("small", views[NUM_GLOBAL:])):
            if group:
                scales = self.student.draw_drop_path(step, f"drop path {name}", len(group), by_view=True)
                tokens = self.student.encode(torch.cat(group), branch_scales=scales)[:, 0]  # [views·B, D]
                scores = self.student_head(tokens, is_frozen=is_frozen)
                answers.append(scores.unflatten(0, (len(group), -1)))
        return torch.cat(answers)

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
    def complete(cls, given: dict[str, Any], encoder: nn.Module) -> dict[str, Any]:
        assert isinstance(encoder, VisionTransformer)
        return {**given, "crops": given["crops"].completed(encoder), "head": given["head"].completed(encoder)}


def cross_view(taught: Tensor, answers: Tensor) -> Tensor:
    """[2, B, P] probabilities, [views, B, P] scores -> scalar: the mean cross-entropy of all pairs of different views."""
    logs = answers.log_softmax(dim=-1)
    with full_precision(logs):
        pairs = -torch.einsum("tbp,vbp->tv", taught, logs) / taught.shape[1]  # [2, views]
    same = torch.eye(*pairs.shape, dtype=torch.bool, device=pairs.device)
    return pairs[~same].mean()


def warmed(progress: float, warmup: float, temperatures: tuple[float, float]) -> float:
    """Linear during the warm-up, then the second one."""
    return schedule.linear(min(progress / warmup, 1.0) if warmup else 1.0, *temperatures)
