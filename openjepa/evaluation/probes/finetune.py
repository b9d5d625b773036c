"""Fine-tuning, as in I-JEPA's 1 % ImageNet evaluation, with MAE's recipe: the whole encoder learns, under a linear head.

No mixup, no cutmix, no erasing, no drop path. The encoder itself stays as it is: a copy is trained.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from openjepa.core import schedule, seeding
from openjepa.core.errors import BadInput, OpenJepaError
from openjepa.core.numbers import Above, NotNegative, Positive, Share
from openjepa.data.batches.images import Images
from openjepa.data.crops import batched
from openjepa.evaluation import encoders, features
from openjepa.evaluation.probes import layer_decay
from openjepa.evaluation.training_views import Stream, Views
from openjepa.machine.console import Track

HEAD_STD = 2e-5  # MAE's: the first predictions are almost uniform, so the first gradients hardly disturb the encoder


@dataclass(kw_only=True)
class Finetune:
    """Trains a copy of an encoder together with a linear head.

    >>> from openjepa.evaluation.probes.finetune import Finetune
    >>> probe = Finetune(epochs=10, warmup_epochs=1, lr=1e-3)
    >>> [round(probe.rate(progress), 6) for progress in (0.05, 0.1, 1.0)]
    [0.0005, 0.001, 1e-06]
    """

    epochs: Positive = 50
    batch_size: Positive = 512
    lr: Above = 3e-5  # published for ViT-L and ViT-H on ImageNet; small encoders on small data need more
    warmup_epochs: NotNegative = 5.0  # MAE's
    final_lr: NotNegative = 1e-6
    weight_decay: NotNegative = 0.05  # published for ViT-L; for ViT-H it is 0.4
    layer_decay: Share = 0.75
    label_smoothing: Share = 0.1
    augment: bool = True  # RandAugment; crops and flips are always there
    seed: int = 0
    losses: list[float] = field(default_factory=list, init=False, repr=False)  # mean of each epoch
    _model: "Classifier | None" = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.warmup_epochs >= self.epochs:
            raise BadInput(
                f"warmup_epochs is {self.warmup_epochs:g} and epochs is {self.epochs}: the full learning rate would never "
                f"be used; take fewer warm-up epochs, such as {self.epochs / 10:g}"
            )

    def fit(
        self,
        encoder: nn.Module,
        images: Images,
        index: Tensor,
        labels: Tensor,
        track: Track | None = None,
    ) -> Self:
        """Learns from the random crops `images` makes at index [S], labels [S] being their classes."""
        device = encoders.device_of(encoder)
        # A head draws its first weights, and dropout (in somebody else's encoder) its zeros, from the global generator.
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seeding.number(self.seed, "finetune layers"))
            model = _classifier(encoder, images.crops[0].size, num_classes=int(labels.max()) + 1)
            groups = layer_decay.groups(
                model.encoder, model.head, decay=self.layer_decay, weight_decay=self.weight_decay
            )
            optimizer = torch.optim.AdamW(groups, lr=self.lr, fused=True)
            stream = Stream(epochs=self.epochs, batch_size=self.batch_size, augment=self.augment, seed=self.seed)
            views = stream.views(images, index, labels)
            num_steps = stream.steps_per_epoch(len(index))
            self.losses = []
            for _ in _tracked(range(self.epochs), track):
                losses = [self._step(model, optimizer, batch, num_steps) for batch in islice(views, num_steps)]
                self.losses.append(sum(losses) / num_steps)
        self._model = model.eval()
        return self

    def predict(self, images: Images, index: Tensor) -> Tensor:
        """-> [S] classes of the evaluation crops `images` makes at index [S]; ignore that of a broken image."""
        assert self._model is not None, "fit first"
        device = encoders.device_of(self._model)
        with torch.inference_mode():
            batches = (batch.views[0] for batch in features.crops(images, index, batch_size=self.batch_size))
            classes = [self._model(batched.normalise(crops).to(device)).argmax(dim=1).cpu() for crops in batches]
        return torch.cat(classes).clone()  # an ordinary tensor, not one of inference mode

    @property
    def chosen(self) -> dict[str, Any]:
        return {"lr": self.lr, "epochs": self.epochs}

    def rate(self, progress: float) -> float:
        """The learning rate of the head; every other part multiplies it by its own scale."""
        warmup = self.warmup_epochs / self.epochs
        return schedule.warmup_cosine(progress, warmup=warmup, start=0.0, peak=self.lr, final=self.final_lr)

    def _step(self, model: nn.Module, optimizer: torch.optim.Optimizer, views: Views, num_steps: int) -> float:
        """One update -> the loss before it."""
        lr = self.rate((views.step + 1) / (num_steps * self.epochs))
        for group in optimizer.param_groups:
            group["lr"] = lr * group["scale"]
        optimizer.zero_grad()
        loss = mean_loss(model, views, self.label_smoothing)
        loss.backward()
        _check_gradients(model, views.step)
        optimizer.step()
        return loss.item()


class Classifier(nn.Module):
    """No norm between encoder and head: the encoder ends with its own."""

    def __init__(self, encoder: nn.Module, dim: int, num_classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(dim, num_classes)
        nn.init.normal_(self.head.weight, std=HEAD_STD)
        nn.init.zeros_(self.head.bias)

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, h, w] -> [B, classes]"""
        return self.head(encoders.one_vector(self.encoder, images))


def _classifier(encoder: nn.Module, image_size: tuple[int, int], *, num_classes: int) -> Classifier:
    """On a copy that learns as a whole, even if the encoder is frozen, as I-JEPA's target encoder is."""
    learner = copy.deepcopy(encoder).requires_grad_(True).eval()
    device = encoders.device_of(encoder)
    with torch.no_grad():
        dim = encoders.one_vector(learner, torch.zeros(1, 3, *image_size, device=device)).shape[1]
    return Classifier(learner, dim, num_classes).to(device).train()


def mean_loss(model: nn.Module, views: Views, label_smoothing: float) -> Tensor:
    """Over the valid images; 0 for a batch without any."""
    device = encoders.device_of(model)
    logits = model(views.images.to(device))  # [B, classes]
    each = F.cross_entropy(logits, views.labels.to(device), label_smoothing=label_smoothing, reduction="none")  # [B]
    weight = views.is_valid.to(each)
    return (each * weight).sum() / weight.sum().clamp(min=1)


def _check_gradients(model: nn.Module, step: int) -> None:
    norm = nn.utils.get_total_norm([weight.grad for weight in model.parameters() if weight.grad is not None])
    if not norm.isfinite():
        raise OpenJepaError(
            f"the gradient of fine-tuning step {step} is not finite; try a lower lr or more warmup_epochs, and check that "
            "the encoder's own weights are finite"
        )


def _tracked(epochs: range, track: Track | None) -> Iterable[int]:
    return epochs if track is None else track(epochs, "fine-tuning", len(epochs))
