"""iBOT (Zhou et al., ICLR 2022): DINO between views, plus the same loss between student and teacher at hidden patches.

In each large view some patches of some images are hidden from the student (mask tokens). The teacher sees all patches; student
and teacher use one head for class and patch tokens. Differences from the published code as in dino.py.
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from openjepa.core import schedule
from openjepa.core.contracts import Method, methods
from openjepa.core.numbers import Above, Share
from openjepa.core.types import Augmentation, Batch, EncoderNeeds, LossOutput, Step
from openjepa.masks.ibot_masks import Hidden, Hiding
from openjepa.methods.dino import CENTRE_MOMENTUM, cross_view, warmed
from openjepa.models.heads import PrototypeOptions, information
from openjepa.models.multicrop import NUM_GLOBAL, MultiCrop
from openjepa.models.running_mean import RunningMean
from openjepa.models.vit import VisionTransformer
from openjepa.nn import ema


@dataclass(frozen=True)
class Outputs:
    """Scores or probabilities of prototypes; only at hidden patches, because the head on all of them would dominate the cost."""

    of_class: Tensor  # [2, B, prototypes], for class tokens
    of_patches: Tensor  # [H, prototypes], for the hidden patches of all images


@methods.register("ibot")
class IBOT(Method):
    """The loss has two parts: between views, and at the hidden patches within a view.

    >>> import openjepa, torch
    >>> from openjepa.core.types import Batch, Step
    >>> method = openjepa.method("ibot", "vit-nano/8", image_size=32, crops={"num_local": 2})
    >>> step = Step(index=0, total=10, seed=0, batch_size=2, rows=slice(0, 2))
    >>> views = tuple(torch.randn(2, 3, *view.size) for view in method.augmentations)
    >>> output = method.training_step(Batch(views[0], torch.arange(2), views), step)
    >>> sorted(output.metrics)
    ['train/information', 'train/patches', 'train/views']
    """

    needs = EncoderNeeds(class_token=True, mask_token=True, stretched_positions=True, pools_class=True)

    def __init__(
        self,
        encoder: VisionTransformer,
        *,
        crops: MultiCrop = MultiCrop(num_local=10, global_scale=(0.25, 1.0), local_scale=(0.05, 0.25)),  # noqa: B008
        head: PrototypeOptions = PrototypeOptions(published=8192, is_unit=False),  # noqa: B008 - frozen
        hiding: Hiding = Hiding(),  # noqa: B008 - frozen
        student_temperature: Above = 0.1,
        teacher_temperature: tuple[Above, Above] = (0.04, 0.07),
        temperature_warmup: Share = 0.04,  # share of the run (published: 30 of 800 epochs)
        frozen: Share = 0.001,  # share of the run in which the prototypes stay (published: 1 of 800 epochs)
        momentum: Share = 0.996,  # at the start; it ends at 1
    ) -> None:
        super().__init__()
        self.student = encoder
        self.student_head = head.build(encoder)  # one for class and patch tokens, as in the published runs
        self.teacher = copy.deepcopy(encoder).requires_grad_(False)
        self.teacher_head = copy.deepcopy(self.student_head).requires_grad_(False)
        self.class_centre = RunningMean(self.student_head.num_prototypes, CENTRE_MOMENTUM)
        self.patch_centre = RunningMean(self.student_head.num_prototypes, CENTRE_MOMENTUM)
        self.hiding = hiding
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
        large, small = batch.views[:NUM_GLOBAL], batch.views[NUM_GLOBAL:]
        hidden = self.hidden(step).to(batch.images.device)
        targets = self.teacher_choices(large, hidden, step)
        outputs = self.student_scores(large, hidden, step)
        scores = outputs.of_class  # [2, B, prototypes]
        if small:
            scores = torch.cat([scores, self.student_scores_small(small, step)])
        between = cross_view(targets.of_class, scores / self.student_temperature)
        within = at_hidden(targets.of_patches, outputs.of_patches / self.student_temperature, hidden)
        parts = {"train/views": between.detach(), "train/patches": within.detach()}
        return LossOutput(between + within, {**parts, "train/information": information(targets.of_class)})

    def hidden(self, step: Step) -> Hidden:
        """In both large views, one after the other; drawn for the global batch, on the CPU."""
        views = [
            self.hiding.draw(step.batch_size, self.student.grid, step.generator(f"masks {view}"))[step.rows]
            for view in range(NUM_GLOBAL)
        ]
        return Hidden.of(torch.cat(views))  # [2·B, N]

    @torch.no_grad()
    def teacher_choices(self, views: tuple[Tensor, ...], hidden: Hidden, step: Step) -> Outputs:
        """Probabilities: centered with the means before this step, then sharpened."""
        head = self.teacher_head
        vectors = head.vectors(self.teacher.encode(torch.cat(views)))  # [2·B, 1+N, bottleneck]
        of_class, of_patches = head.scores(vectors[:, 0]), head.scores(hidden.pick(vectors[:, 1:]))
        if self.training:
            self.class_centre.collect(of_class)
            mean = vectors[:, 1:].mean(dim=(0, 1))  # of all patches: scores are linear, so this gives their mean
            self.patch_centre.collect(head.scores(mean[None]))
        temperature = warmed(step.progress, self.temperature_warmup, self.teacher_temperature)
        return Outputs(
            ((of_class - self.class_centre.mean) / temperature).softmax(dim=-1).unflatten(0, (len(views), -1)),
            ((of_patches - self.patch_centre.mean) / temperature).softmax(dim=-1),
        )

    def student_scores(self, views: tuple[Tensor, ...], hidden: Hidden, step: Step) -> Outputs:
        scales = self.student.draw_drop_path(step, "drop path large", len(views), by_view=True)
        tokens = self.student.encode(torch.cat(views), hidden=hidden.mask, branch_scales=scales)
        chosen = torch.cat([tokens[:, 0], hidden.pick(tokens[:, 1:])])  # [2·B + H, D]
        scores = self.student_head(chosen, is_frozen=step.progress < self.frozen)
        of_class, of_patches = scores.tensor_split([len(tokens)])
        return Outputs(of_class.unflatten(0, (len(views), -1)), of_patches)

    def student_scores_small(self, views: tuple[Tensor, ...], step: Step) -> Tensor:
        """-> [views, B, prototypes]; nothing is hidden in small views."""
        scales = self.student.draw_drop_path(step, "drop path small", len(views), by_view=True)
        tokens = self.student.encode(torch.cat(views), branch_scales=scales)[:, 0]
        scores = self.student_head(tokens, is_frozen=step.progress < self.frozen)
        return scores.unflatten(0, (len(views), -1))

    def after_update(self, step: Step) -> None:
        momentum = schedule.cosine(step.progress, self.momentum, 1.0)
        ema.follow(self.teacher, self.student, momentum)
        ema.follow(self.teacher_head, self.student_head, momentum)
        self.class_centre.update()
        self.patch_centre.update()

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


def at_hidden(targets: Tensor, scores: Tensor, hidden: Hidden) -> Tensor:
    """[H, P] twice -> scalar: cross-entropy at the hidden patches, averaged over each image, then over images.

    Images without a hidden patch count as zero, as published.
    """
    errors = -(targets * scores.log_softmax(dim=-1)).sum(dim=-1)  # [H]
    return (errors * hidden.weights).sum() / len(hidden.mask)
