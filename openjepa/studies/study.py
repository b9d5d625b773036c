"""A study: one job done in several ways (arms), with several seeds, at an equal budget, judged on the same tasks.

`openjepa compare` and `openjepa ablate` both make one. It lies in a folder: study.yaml says what is asked, runs/ holds a run for
each arm and seed, and results.json, table.md and index.html what came out. A study that was killed goes on where it stopped.
"""

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from openjepa.core import settings as plain
from openjepa.core.errors import BadInput
from openjepa.runs.directory import RunFolder, write_text

MAY_CHANGE = ("title", "terms.seeds", "terms.tasks", "terms.probes")  # more or fewer of these is no other question
ARM = re.compile(r"arms\.[^.]+")


@dataclass(frozen=True)
class Arm:
    name: str
    settings: dict[str, Any] = field(default_factory=dict)  # dotted path -> value, on top of the study's own
    group: str = ""  # a heading in the table
    published: float | None = None  # a number of the paper to stand beside ours; never mixed with it

    @property
    def slug(self) -> str:
        """For the names of files."""
        return re.sub(r"[^\w.-]+", "_", self.name)


@dataclass(frozen=True)
class Terms:
    """What all arms of a study share."""

    base: dict[str, Any]  # settings by section, as in a config file
    seeds: tuple[int, ...]
    tasks: tuple[str, ...]
    probes: tuple[str, ...]
    labels: str | None = None  # how many the probes may see, as for `openjepa evaluate`; None: all
    features: str = "last"
    budget: str = ""  # in words

    @property
    def words(self) -> str:
        """For a title."""
        data = self.base.get("data") or {}
        return f"{self.budget}, {data.get('source', 'the default data')}"


@dataclass(frozen=True)
class Study:
    title: str
    terms: Terms
    arms: tuple[Arm, ...]
    published: str = ""  # what the published numbers are: which table, model, length, measure

    def __post_init__(self) -> None:
        slugs = [arm.slug for arm in self.arms]
        twins = [arm.name for arm in self.arms if slugs.count(arm.slug) > 1]
        if twins:
            raise BadInput(f'the arms "{twins[0]}" and "{twins[1]}" would have the same folder; rename one')

    def cells(self) -> list[tuple[Arm, int]]:
        """Seed by seed, so that a study that is not finished yet has every arm once."""
        return [(arm, seed) for seed in self.terms.seeds for arm in self.arms]

    def settings(self, arm: Arm, seed: int) -> dict[str, Any]:
        """Of one run, as in a config file."""
        merged = plain.copied(self.terms.base)
        for path, value in arm.settings.items():
            plain.put(merged, path, plain.copied(value))
        plain.put(merged, "seed", seed)
        return merged


@dataclass(frozen=True)
class StudyFolder:
    path: Path

    @property
    def question(self) -> Path:
        return self.path / "study.yaml"

    @property
    def results(self) -> Path:
        return self.path / "results.json"

    @property
    def table(self) -> Path:
        return self.path / "table.md"

    @property
    def page(self) -> Path:
        return self.path / "index.html"

    def run(self, arm: Arm, seed: int) -> RunFolder:
        return RunFolder(self.path / "runs" / f"{arm.slug}-seed{seed}")

    def config(self, arm: Arm, seed: int) -> Path:
        return self.path / "configs" / f"{arm.slug}-seed{seed}.yaml"

    def scores(self, arm: Arm, seed: int) -> Path:
        """What this study asked for, in the run's folder; the run may have been judged in other ways, too."""
        return self.run(arm, seed).path / "study.json"


def check_folder(folder: StudyFolder, study: Study) -> None:
    """A new folder, or one that holds the same question: results of different questions are never mixed."""
    if folder.question.exists():
        before = plain.read(folder.question)
        changed = [row for row in plain.difference(before, as_asked(study)) if not _may_change(*row)]
        if changed:
            path, old, new = changed[0]
            raise BadInput(
                f"{folder.path} holds another study ({path} is {old} there, {new} here); name another folder with --run, "
                "or ask the same"
            )
    elif folder.path.exists() and any(folder.path.iterdir()):
        raise BadInput(f"{folder.path} is not empty and holds no study; name another folder with --run")


def write_question(folder: StudyFolder, study: Study) -> None:
    write_text(folder.question, yaml.safe_dump(as_asked(study), sort_keys=False, allow_unicode=True))


def as_asked(study: Study) -> dict[str, Any]:
    """As YAML holds it, the arms by name."""
    values = {**asdict(study), "arms": {arm.name: asdict(arm) for arm in study.arms}}
    return yaml.safe_load(yaml.safe_dump(values, sort_keys=False))


def _may_change(path: str, old: Any, new: Any) -> bool:
    is_new_or_left_out = ARM.fullmatch(path) is not None and (old is None or new is None)
    return path in MAY_CHANGE or is_new_or_left_out
