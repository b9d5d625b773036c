"""The run folder: the files of one run, and atomic writing.

config.yaml · provenance.json · metrics.jsonl · pace.jsonl · broken.jsonl · checkpoints/ · weights.safetensors · evals/ ·
report.html
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RunFolder:
    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def provenance(self) -> Path:
        return self.path / "provenance.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def pace(self) -> Path:
        return self.path / "pace.jsonl"

    @property
    def broken(self) -> Path:
        return self.path / "broken.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def weights(self) -> Path:
        return self.path / "weights.safetensors"

    @property
    def evals(self) -> Path:
        return self.path / "evals"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def holds_a_run(self) -> bool:
        return self.config.exists()


def write_text(path: Path, text: str) -> None:
    """Atomic: readers see the whole new file or the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")  # one for each process
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_broken(folder: RunFolder, broken: dict[str, str]) -> None:
    """Images that could not be decoded, with the reason, one JSON object per line."""
    lines = [
        json.dumps({"path": path, "reason": reason}, ensure_ascii=False) for path, reason in sorted(broken.items())
    ]
    write_text(folder.broken, "".join(f"{line}\n" for line in lines))
