"""The options of an evaluation, once for Python and for the command line. No torch here: `--help` must be quick."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from cyclopts import Parameter, validators

from openjepa.core import settings as plain
from openjepa.core.errors import BadInput
from openjepa.core.registry import did_you_mean

Blocks = Literal["last", "last4"]  # of the encoder: the last one, or the last four side by side
FINETUNE = "finetune"
MORE_BASELINES = ("patches",)  # take minutes, so they must be requested; raw pixels and random weights need no request
LINEAR = "linear"  # chooses between the last block and the last four by itself, and can learn from random crops


def _texts(_: Any, tokens: Sequence[Any]) -> list[str]:
    return [token.value for token in tokens]


_AtLeastOne = Parameter(validator=validators.Number(gte=1))
_Repeated = Parameter(negative=(), consume_multiple=False, metavar="STR")
_Overrides = Parameter(name="--set", accepts_keys=False, converter=_texts, show_default=False)
_PythonOnly = Parameter(parse=False)


@Parameter(name="*")  # on the command line its fields are options of the verb
@dataclass(frozen=True, kw_only=True)
class Request:
    """What to evaluate with, besides the encoder and the tasks.

    Args:
        probe: knn, logistic, linear or finetune; may be given many times; default: the first three.
        baseline: patches, a dictionary of image patches; takes minutes. Raw pixels and random weights are always measured.
        labels: How many labels the probes see: 1%, 5/class, or a list file; default: all.
        draws: How many times to draw these labels, or the number of seeds; default: 3 for 1% or 5/class, else 1.
        encoder: The target encoder, as in the paper, or the context encoder.
        features: What knn and logistic see: the last block or the last four; linear tries both.
        views: Random crops for linear to train on instead of the centre crop; the paper uses a new one every epoch.
        image_size: In pixels; default: that of the run.
        data: A folder with data sets under their usual names, for tasks without a path; also OPENJEPA_DATA.
        settings: An option of a probe, such as --set linear.epochs=10; may be given many times.
        checks_leaks: Whether to look for test images among the images that were learned from.
        uses_cache: Whether to save features on disk and use saved ones.
        num_train: Use this many training images, balanced over the classes.
        num_test: Use this many test images, balanced over the classes.
    """

    probe: Annotated[str | Sequence[str] | None, _Repeated] = None
    baseline: Annotated[str | Sequence[str] | None, _Repeated] = None
    labels: str | None = None
    draws: Annotated[int | None, _AtLeastOne] = None
    encoder: Literal["target", "context"] = "target"
    features: Blocks = "last"
    views: int = 0
    image_size: Annotated[
        int | tuple[int, int] | None, _AtLeastOne, Parameter(n_tokens=1, negative=(), metavar="INT")
    ] = None
    data: str | Path | None = None
    settings: Annotated[Mapping[str, Any] | Sequence[str] | None, _Repeated, _Overrides] = None
    checks_leaks: Annotated[bool, Parameter(name="--leak-check")] = True
    uses_cache: Annotated[bool, Parameter(name="--cache")] = True
    num_train: Annotated[int | None, _PythonOnly] = None
    num_test: Annotated[int | None, _PythonOnly] = None

    @property
    def probes(self) -> tuple[str, ...] | None:
        """None: those of the task."""
        if self.probe is None:
            return None
        return _names(self.probe)

    @property
    def baselines(self) -> tuple[str, ...]:
        """Those besides raw pixels and random weights."""
        return _names(self.baseline or ())

    @property
    def probe_options(self) -> Mapping[str, Any]:
        """Options by probe: {"linear": {"epochs": 10}}."""
        if isinstance(self.settings, Mapping):
            return self.settings
        if isinstance(self.settings, str):
            raise BadInput(f'settings is "{self.settings}"; expected a list such as ["linear.epochs=3"], or a mapping')
        options: dict[str, Any] = {}
        for override in self.settings or ():
            plain.put(options, *plain.parse_override(override))
        return options

    def changed(self, options: Mapping[str, Any]) -> "Request":
        """With other values for some fields, by name."""
        known = [each.name for each in fields(self)]
        for name in options:
            if name not in known:
                raise BadInput(f'unknown option "{name}" of evaluate{did_you_mean(name, known)}')
        return replace(self, **options)

    def check(self, known: Collection[str]) -> None:
        """`known` are the names of all probes."""
        probes = self.probes
        check_baselines(self.baselines)
        for name in [*(probes or ()), *self.probe_options]:
            if name not in known:
                raise BadInput(f'unknown probe "{name}"{did_you_mean(name, known)}')
        if probes == ():
            raise BadInput(f"no probe is given; choose some of {', '.join(known)}")
        for name in self.probe_options:
            if probes is not None and name not in probes:
                raise BadInput(f"there are settings for {name}, which is not among the probes {', '.join(probes)}")
        if self.draws is not None and (not isinstance(self.draws, int) or self.draws < 1):
            raise BadInput(f"draws is {self.draws!r}; expected a whole number, 1 or more")
        if not isinstance(self.views, int) or self.views < 0:
            raise BadInput(f"views is {self.views!r}; expected 0 (the fixed crop only) or more random crops")
        if self.views and probes is not None and LINEAR not in probes:
            raise BadInput(f"only {LINEAR} learns from random crops; add it to the probes, or remove views")
        if self.features not in get_args(Blocks):
            raise BadInput(f'features is "{self.features}"; expected {" or ".join(get_args(Blocks))}')


def check_baselines(names: Sequence[str]) -> None:
    for name in names:
        if name not in MORE_BASELINES:
            known = ", ".join(MORE_BASELINES)
            raise BadInput(
                f'unknown baseline "{name}"; choose {known} (raw pixels and random weights are always measured)'
            )


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))
