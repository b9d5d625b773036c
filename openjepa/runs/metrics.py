"""metrics.jsonl: one object per line with the step, the wall-clock seconds and named values."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openjepa.runs.directory import write_text


class Recorder:
    """Appends lines. A resumed run first drops the lines that the killed one wrote after its last checkpoint."""

    def __init__(self, path: Path, *, start: int = 0) -> None:
        rows = [row for row in read(path) if row["step"] <= start]
        write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
        self._file = path.open("a", encoding="utf-8")
        self._seconds_before = rows[-1]["wall"] if rows else 0.0
        self._began = time.perf_counter()

    def write(self, step: int, values: Mapping[str, float]) -> None:
        wall = self._seconds_before + time.perf_counter() - self._began
        self._file.write(json.dumps({"step": step, "wall": round(wall, 3), **values}) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a metrics file; ignores a partial last line of a killed process."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


def series(rows: list[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    """Steps and values of one metric."""
    chosen = [row for row in rows if name in row]
    return [row["step"] for row in chosen], [row[name] for row in chosen]
