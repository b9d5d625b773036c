"""A study: several settings (arms) × several seeds at an equal budget, evaluated on the same tasks.

`openjepa compare` and `openjepa ablate` both define one; run.py runs it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from openjepa.core import settings as plain
from openjepa.core.errors import BadInput
from openjepa.training import recipe


@dataclass(frozen=True)
class Arm:
    name: str
    settings: dict[str, Any] = field(default_factory=dict)  # dotted path -> value, on top of the study's own
    group: str = ""  # a heading in the table
    published: float | None = None  # a number of the paper, shown beside ours

    @property
    def slug(self) -> str:
        """For file names."""
        return re.sub(r"[^\w.-]+", "_", self.name)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What all arms of a study share."""

    base: dict[str, Any]  # settings by section, as in a config file
    seeds: tuple[int, ...]
    tasks: tuple[str, ...]
    probes: tuple[str, ...]
    labels: str | None = None  # how many labels the probes see, as for `openjepa evaluate`; None: all
    features: str = "last"
    baselines: tuple[str, ...] = ()  # besides raw pixels and random weights
    budget: str = ""  # in words

    @property
    def title(self) -> str:
        data = self.base.get("data") or {}
        return f"{self.budget}, {data.get('source', 'the default data')}"


@dataclass(frozen=True)
class Study:
    title: str
    terms: Terms
    arms: tuple[Arm, ...]
    published: str = ""  # where the published numbers come from: table, model, length, metric

    def __post_init__(self) -> None:
        slugs = [arm.slug for arm in self.arms]
        twins = [arm.name for arm in self.arms if slugs.count(arm.slug) > 1]
        if twins:
            raise BadInput(f'the arms "{twins[0]}" and "{twins[1]}" would have the same folder; rename one')

    def cells(self) -> list[tuple[Arm, int]]:
        """Seed by seed: an unfinished study has every arm once before any arm twice."""
        return [(arm, seed) for seed in self.terms.seeds for arm in self.arms]

    def settings(self, arm: Arm, seed: int) -> dict[str, Any]:
        """Of one run, as in a config file."""
        merged = plain.copied(self.terms.base)
        for path, value in arm.settings.items():
            plain.put(merged, path, plain.copied(value))
        plain.put(merged, "seed", seed)
        return merged

    def as_dict(self) -> dict[str, Any]:
        """As study.yaml holds it, the arms by name."""
        values = {**asdict(self), "arms": {arm.name: asdict(arm) for arm in self.arms}}
        return yaml.safe_load(yaml.safe_dump(values, sort_keys=False))


def base_settings(
    file: str | Path | None, options: Mapping[str, Any], overrides: Sequence[str], *, watched: str
) -> dict[str, Any]:
    """What all arms share: a recipe or file, then options of the command line, then overrides.

    Unless the settings configure the monitor `probe`, a small one on the task `watched` runs during training, for curves.
    """
    base = plain.copied(recipe.read_fixed(file)) if file is not None else {}
    changes = [plain.parse_override(override) for override in overrides]
    for path, value in [*((path, value) for path, value in options.items() if value is not None), *changes]:
        plain.put(base, path, value)
    lengths = [path for path, _ in changes if path in plain.BUDGETS]
    if lengths:
        raise BadInput(
            f"--set {lengths[0]} is not possible in a study; set the budget of all arms with --minutes, --epochs or --flops"
        )
    if "probe" not in (base.get("monitors") or {}):
        plain.put(base, "monitors.probe", {"task": watched, "every": "10%"})
    return base
