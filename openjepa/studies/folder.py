"""The folder of a study. A study that was killed resumes from it.

study.yaml the definition · configs/ · runs/ one run for each arm and seed · results.json · table.md · index.html
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from openjepa.core import settings as plain
from openjepa.core.errors import BadInput
from openjepa.runs.directory import RunFolder, write_text
from openjepa.studies.study import Arm, Study

# more or fewer of these keep earlier results valid
MAY_CHANGE = ("title", "terms.seeds", "terms.tasks", "terms.probes", "terms.baselines")
ARM = re.compile(r"arms\.[^.]+")


@dataclass(frozen=True)
class StudyFolder:
    path: Path

    @property
    def definition(self) -> Path:
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
        """Only this study's scores: RUN/evals may hold others, for example with fewer labels."""
        return self.run(arm, seed).path / "study.json"

    def save(self, study: Study) -> None:
        write_text(self.definition, yaml.safe_dump(study.as_dict(), sort_keys=False, allow_unicode=True))

    def check(self, study: Study) -> None:
        """A new folder, or one that holds the same study: results of different studies are never mixed."""
        if self.definition.exists():
            before = plain.read(self.definition)
            changed = [row for row in plain.difference(before, study.as_dict()) if not _may_change(*row)]
            if changed:
                path, old, new = changed[0]
                raise BadInput(
                    f"{self.path} holds another study ({path} is {old} there, {new} here); choose another folder with --run, "
                    "or use the same settings"
                )
        elif self.path.exists() and any(self.path.iterdir()):
            raise BadInput(f"{self.path} is not empty and holds no study; choose another folder with --run")


def _may_change(path: str, old: Any, new: Any) -> bool:
    is_added_or_removed = ARM.fullmatch(path) is not None and (old is None or new is None)
    return path in MAY_CHANGE or is_added_or_removed
