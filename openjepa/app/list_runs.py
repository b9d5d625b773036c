"""A line for each run below a folder: what, how far, how good."""

import json
from pathlib import Path
from typing import Any

from openjepa.core import config as configs
from openjepa.core.errors import BadInput
from openjepa.runs import metrics
from openjepa.runs.directory import RunFolder


def list_runs(folder: Path) -> list[dict[str, Any]]:
    """Newest last. A folder that cannot be read is listed as such."""
    if not folder.is_dir():
        raise BadInput(f'no folder "{folder}"; give the folder that holds your runs')
    found = [RunFolder(path.parent) for path in folder.rglob("config.yaml")]
    return [_row(run) for run in sorted(found, key=_started)]


def _started(run: RunFolder) -> str:
    return str(_provenance(run).get("started", ""))


def _row(run: RunFolder) -> dict[str, Any]:
    try:
        config = configs.load(configs.read(run.config))
    except BadInput:
        return {"run": str(run.path), "status": "unreadable config"}
    rows = metrics.read(run.metrics)
    _, losses = metrics.series(rows, "train/loss")
    return {
        "run": str(run.path),
        "status": _provenance(run).get("status", "unknown"),
        "method": config.method["name"],
        "model": config.model.name,
        "data": config.data.source,
        "steps": rows[-1]["step"] if rows else 0,
        "minutes": round(rows[-1]["wall"] / 60, 1) if rows else 0.0,
        "loss": round(losses[-1], 4) if losses else None,
        **_scores(run),
    }


def _scores(run: RunFolder) -> dict[str, str]:
    """Trained accuracy of the logistic probe, for each task that was evaluated."""
    scores = {}
    for path in sorted(run.evals.glob("*.json")):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # half-copied; the table shows the other runs all the same
            continue
        for score in found:
            if score["probe"] == "logistic" and score["representation"] == "trained":
                scores[score["task"]] = f"{100 * score['accuracy']:.1f} %"
    return scores


def _provenance(run: RunFolder) -> dict[str, Any]:
    try:
        return json.loads(run.provenance.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
