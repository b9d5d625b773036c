"""What each kind of part must be able to do, and the registry of each kind."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol, Self, runtime_checkable

import torch
from pydantic import AfterValidator
from torch import Tensor, nn

from openjepa.core import schema
from openjepa.core.duration import Duration
from openjepa.core.registry import Registry
from openjepa.core.types import Augmentation, Batch, EncoderNeeds, Features, Grid, LossOutput, Masks, Sample, Step


class MaskStrategy(Protocol):
    """Draws masks for a whole batch; a frozen dataclass whose fields are its options."""

    def __call__(self, batch_size: int, grid: Grid, generator: torch.Generator) -> Masks: ...


@runtime_checkable
class Encoder(Protocol):
    """What evaluation and visualisation use: images [B, 3, h, w] -> tokens [B, N, D], and one vector per image."""

    def __call__(self, images: Tensor) -> Tensor: ...

    def pool(self, images: Tensor) -> Tensor: ...


class Method(nn.Module, ABC):
    """A way to learn without labels. Its constructor's keyword-only arguments are its options in the config."""

    needs: ClassVar[EncoderNeeds] = EncoderNeeds()
    takes_resnet: ClassVar[bool] = False  # methods of views need no patches

    @property
    def augmentations(self) -> tuple[Augmentation, ...]:
        """How each view of an image is made. Empty: one crop with the settings of the data section, colours unchanged."""
        return ()

    @abstractmethod
    def training_step(self, batch: Batch, step: Step) -> LossOutput:
        """The whole method: batch in, loss out."""

    def after_update(self, step: Step) -> None:
        """Runs after the optimiser step; moves a teacher, a running mean."""

    @classmethod
    def complete(cls, options: dict[str, Any], encoder: nn.Module) -> dict[str, Any]:
        """Fills in options whose default depends on the encoder, so that a run's config lists every value."""
        return options

    @property
    @abstractmethod
    def encoder(self) -> nn.Module:
        """What evaluation uses (for I-JEPA the target encoder)."""

    @property
    def learner(self) -> nn.Module:
        """The encoder that gradients reach (for I-JEPA the context encoder); usually the one that is evaluated."""
        return self.encoder

    @property
    def tuned_encoder(self) -> nn.Module:
        """What fine-tuning starts from; SimCLR v2 adds the first layer of its head."""
        return self.encoder

    def forward(self, batch: Batch, step: Step) -> LossOutput:
        return self.training_step(batch, step)  # DistributedDataParallel hooks into forward


class Probe(ABC):
    """Frozen features in, classes out. A dataclass whose keyword-only fields are its options."""

    @abstractmethod
    def fit(self, train: Features) -> Self: ...

    @abstractmethod
    def predict(self, test: Features) -> Tensor:
        """-> [S] classes. Must not look at `test.labels`."""

    def score(self, test: Features) -> dict[str, float]:
        return {"accuracy": (self.predict(test) == test.labels).float().mean().item()}

    @property
    def chosen(self) -> dict[str, Any]:
        """What `fit` chose on held-out training data, such as a strength or a head; saved with the score."""
        return {}


@dataclass(frozen=True, kw_only=True)
class View:
    """What a monitor may look at after a step; it changes nothing."""

    step: Step
    method: Method
    output: LossOutput
    gradient_norm: float
    lr: float
    weight_decay: float
    step_seconds: float  # the mean over the steps since this monitor last looked
    wait_seconds: float  # of these seconds, those spent waiting for data
    batch: Batch | None = None  # of this process, in the last accumulation round


class Monitor(Protocol):
    @property
    def every(self) -> Duration: ...

    def __call__(self, view: View) -> Iterable[tuple[str, float]]: ...


class Source(Protocol):
    """A map-style set of images. `[index]` raises BrokenImage for an image that cannot be decoded."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Sample: ...

    def all_labels(self) -> dict[str, Tensor]:
        """Every label by name, each [S] int64, without decoding an image; empty for unlabelled sources."""
        ...

    def fingerprint(self) -> str:
        """Changes when the data changes; a run refuses to resume on other data."""
        ...


@dataclass(frozen=True)
class SourceRequest:
    """What to open: the path of `name:path`, a split, and the image size that training will use."""

    path: str | None = None
    split: str = "train"
    image_size: tuple[int, int] = (64, 64)


# Abilities: what a part may also do. Code that needs one tests isinstance(part, Ability) and never guesses attributes; for
# sources, data/abilities.py does it, as isinstance matches names only.
# They list methods and plain attributes only: from Python 3.12 on, isinstance does not see the submodules of an nn.Module.


@runtime_checkable
class HasFiles(Source, Protocol):
    """A source whose images are files. We decode the files ourselves; `[index]` is not called.

    So `[index].image` must be the image in that file: a source that changes its images must not have a method `path`.
    """

    def path(self, index: int) -> Path: ...


@runtime_checkable
class InMemory(Protocol):
    """A source that holds all of its images. We read them here; `[index]` is not called."""

    @property
    def images(self) -> Tensor:
        """[S, 3, h, w] uint8"""
        ...


@runtime_checkable
class RendersBatches(Protocol):
    """A source that renders its images, a batch far cheaper than one by one."""

    def render(self, indices: Sequence[int]) -> tuple[Tensor, dict[str, Tensor]]:
        """-> images [B, 3, h, w] uint8, labels by name [B]"""
        ...


@runtime_checkable
class HasIdentity(Protocol):
    """A source that can tell its images apart without rendering them."""

    def identity(self, index: int) -> str: ...


@runtime_checkable
class NamesClasses(Protocol):
    """A source that knows the names of its classes."""

    @property
    def class_names(self) -> dict[str, tuple[str, ...]]:
        """By label; the name of class i is at index i."""
        ...


@runtime_checkable
class DrawsMasks(Protocol):
    """A method that hides patches."""

    def masks(self, step: Step) -> Masks: ...


@runtime_checkable
class MeasuresDistance(Protocol):
    """A method that compares predictions with targets; its loss is this distance."""

    def distance(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """[..., D] twice -> scalar"""
        ...


@runtime_checkable
class PredictsBlocks(DrawsMasks, MeasuresDistance, Protocol):
    """A method built like I-JEPA: a predictor guesses the target encoder's output at given patches."""

    draw_masks: MaskStrategy

    def targets(self, images: Tensor, masks: Masks) -> Tensor:
        """[B, 3, h, w] -> [B, M, T, D]"""
        ...

    def predict_blocks(self, images: Tensor, masks: Masks) -> Tensor:
        """[B, 3, h, w] -> [B, M, T, D]"""
        ...


@runtime_checkable
class HasLayers(Protocol):
    """An encoder that gives the output of each block."""

    @property
    def dim(self) -> int: ...

    def pool_layers(self, images: Tensor, number: int) -> Tensor:
        """[B, 3, h, w] -> [B, L·D]: the last L blocks, earliest first."""
        ...


@runtime_checkable
class ResetsParameters(Protocol):
    """A network that can draw new weights, as torch's own layers can."""

    def reset_parameters(self) -> None: ...


@runtime_checkable
class ChecksItself(Protocol):
    """A monitor that needs its own data, such as labelled images, and checks before the run that they are there."""

    def check(self, encoder: nn.Module) -> None: ...


mask_strategies: Registry[type[MaskStrategy]] = Registry("mask strategy", "openjepa.masks")
methods: Registry[type[Method]] = Registry("method", "openjepa.methods")
sources: Registry[Callable[[SourceRequest], Source]] = Registry("data source", "openjepa.data.sources")
probes: Registry[type[Probe]] = Registry("probe", "openjepa.evaluation.probes")
monitors: Registry[type[Monitor]] = Registry("monitor", "openjepa.training.monitors")

# A part inside a part's options: {name: multiblock, num_targets: 2}, completed with the defaults of the one it names.
MaskOptions = Annotated[
    dict[str, Any], AfterValidator(partial(schema.resolve_named, mask_strategies, default="multiblock"))
]
