"""The whole configuration as typed sections; an unknown key is an error with a hint.

A YAML file overrides these defaults; dotted overrides (`optim.lr=1e-3`) come last. The constructors of the named parts
check the `method` and `monitors` sections, see core/schema.py.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from openjepa.core import registry, schema, settings
from openjepa.core.duration import Duration
from openjepa.core.numbers import Above, Beta, DurationField, NotNegative, Positive, Share


def _rising(limits: tuple[float, float]) -> tuple[float, float]:
    if limits[0] > limits[1]:
        raise ValueError(f"{list(limits)} is not a range; write [smaller, larger]")
    return limits


def _above_zero(duration: Duration) -> Duration:
    if duration.amount <= 0:
        raise ValueError(f'"{duration}" must be at least 1 step')
    return duration


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


class DataConfig(Section):
    source: str = "scenes"
    image_size: Positive | tuple[Positive, Positive] = 224  # one number: square; (height, width) otherwise
    crop_scale: Annotated[tuple[Above, Share], AfterValidator(_rising)] = (0.3, 1.0)  # share of the area, as published
    crop_aspect: Annotated[tuple[Above, Above], AfterValidator(_rising)] = (0.75, 4 / 3)  # width / height
    flip: bool = False  # I-JEPA uses no flips
    workers: Annotated[int, Field(ge=0)] = 2
    max_broken: Share = 0.01
    cache: Literal["auto", "memory", "disk", "none"] = "auto"  # of decoded images, see docs/data.md

    @property
    def height_width(self) -> tuple[int, int]:
        return self.image_size if isinstance(self.image_size, tuple) else (self.image_size, self.image_size)


class ModelConfig(Section):
    name: str = "vit-tiny/16"
    drop_path: Annotated[float, Field(ge=0, lt=1)] = 0.0
    # rescale_init divides branch outputs by √(2·depth): the published code defines it, but never applies it
    rescale_init: bool = False
    weight_init: Annotated[float, Field(gt=0)] = 0.02  # standard deviation of the first weights of linear layers …
    patch_init: Annotated[float, Field(gt=0)] = 0.02  # … and of the patch embedding
    checkpoint_activations: bool = False


class OptimConfig(Section):
    name: Literal["adamw", "muon"] = "adamw"
    lr: Annotated[float, Field(gt=0)] = 1e-3
    start_lr: Annotated[float, Field(ge=0)] = 2e-4
    final_lr: Annotated[float, Field(ge=0)] = 1e-6
    warmup: DurationField = Duration(10, "percent")
    weight_decay: tuple[NotNegative, NotNegative] = (0.04, 0.4)
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    clip: Annotated[float, Field(gt=0)] | None = None


class TrainConfig(Section):
    batch_size: Positive = 128  # over all processes and accumulation rounds
    accumulate: Positive = 1
    processes: Literal["auto"] | Positive = (
        "auto"  # that one command starts; torchrun overrides it, see docs/decisions/0010
    )
    epochs: Annotated[float, Field(gt=0)] | None = None
    steps: Positive | None = None
    minutes: Annotated[float, Field(gt=0)] | None = None
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: bool = False
    allocator: Literal["tuned", "system"] = "tuned"  # tuned: reuse freed memory, see machine/allocator.py
    checkpoint_every: Annotated[DurationField, AfterValidator(_above_zero)] = Duration(5, "percent")
    keep: Positive = 2  # checkpoints

    @model_validator(mode="after")
    def _one_length(self) -> "TrainConfig":
        lengths = {"epochs": self.epochs, "steps": self.steps, "minutes": self.minutes}
        names = [name for name, value in lengths.items() if value is not None]
        if len(names) > 1:
            raise ValueError(f"{' and '.join(names)} are both set; use only one of epochs, steps and minutes")
        if self.batch_size % self.accumulate:
            raise ValueError(f"batch_size {self.batch_size} is not a multiple of accumulate {self.accumulate}")
        return self


DEFAULT_EPOCHS = 100.0
INDENT = 2  # spaces, of the YAML that we write
DEFAULT_METHOD = "ijepa"
DEFAULT_MONITORS = ("loss", "throughput", "collapse", "prediction", "gradients")


class Config(Section):
    recipe: str = ""  # where the settings came from: auto, paper, the name of a recipe, or nothing
    seed: Annotated[int, Field(ge=0)] = 0
    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    method: Annotated[dict[str, Any], BeforeValidator(lambda section: _with_name(section))] = {}
    optim: OptimConfig = OptimConfig()
    train: TrainConfig = TrainConfig()
    monitors: Annotated[
        dict[str, dict[str, Any] | Literal[False]], BeforeValidator(lambda section: _with_default_monitors(section))
    ] = {}
    # When a run collapses or diverges: print a warning, stop it as well, or do nothing.
    watch: Annotated[Literal["warn", "stop", "off"], BeforeValidator(lambda word: _as_word(word))] = "warn"
    imports: tuple[str, ...] = ()  # Python files that register parts of one's own, needed by these settings


def _with_name(section: Any) -> Any:
    """A method section without a name is about the default method."""
    return {"name": DEFAULT_METHOD, **section} if isinstance(section, Mapping) else section


def _as_word(word: Any) -> Any:
    """YAML reads a bare `off` as false."""
    return "off" if word is False else word


def _with_default_monitors(section: Any) -> Any:
    """Adds the default monitors; `collapse: off` switches one off."""
    if not isinstance(section, Mapping):
        return section
    merged = {**dict.fromkeys(DEFAULT_MONITORS), **section}
    return {name: {} if value is None else value for name, value in merged.items()}


def load(values: Mapping[str, Any], overrides: Iterable[str] = (), words: Mapping[str, Any] | None = None) -> Config:
    """Plain values, then `words` by dotted path, then `a.b=c` overrides; validated."""
    merged = settings.copied(values)
    for path, value in (words or {}).items():
        settings.put(merged, path, value)
    for override in overrides:
        settings.put(merged, *settings.parse_override(override))
    config = schema.validate(Config, merged)
    registry.check_imported(config.imports)
    return config


def dump(config: Config, reasons: Mapping[str, str] | None = None) -> str:
    """YAML with every value, in the order of the sections; `recipe` and `imports` only where there are some.

    A reason, by dotted path, becomes a comment behind its value.
    """
    absent = {name for name, value in (("recipe", config.recipe), ("imports", config.imports)) if not value}
    values = config.model_dump(mode="json", exclude=absent)
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    return _with_comments(text, reasons) if reasons else text


def _with_comments(text: str, reasons: Mapping[str, str]) -> str:
    lines, path = [], list[str]()
    for line in text.splitlines():
        key, colon, _ = line.lstrip().partition(":")
        if colon and not line.lstrip().startswith("- "):
            depth = (len(line) - len(line.lstrip())) // INDENT
            path = [*path[:depth], key]
            reason = reasons.get(".".join(path))
            line = f"{line}  # {reason}" if reason else line
        lines.append(line)
    return "\n".join(lines) + "\n"
