"""`openjepa runs`: a line for each run below a folder: what, how far, how good."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from openjepa.cli import tables
from openjepa.cli.options import AsJson
from openjepa.core import settings
from openjepa.core.errors import BadInput
from openjepa.runs import metrics
from openjepa.runs.directory import RunFolder
from openjepa.training import verdict

if TYPE_CHECKING:  # imports pydantic and torch, which take seconds: --help should not wait for them
    from openjepa.runs.provenance import Provenance
    from openjepa.runs.scores import Score

PROBES = ("linear", "logistic", "knn")  # if there are several, the first of these is shown: the paper's probe first


def runs(folder: Path = Path("runs"), *, json: AsJson = False) -> None:
    """List the runs below a folder.

    Example: openjepa runs

    Args:
        folder: Where to look, at any depth.
    """
    tables.rows(list_runs(folder), as_json=json, empty=f"no runs below {folder}")


def list_runs(folder: Path) -> list[dict[str, Any]]:
    """Newest last; a run whose config cannot be read is listed, too."""
    if not folder.is_dir():
        raise BadInput(f'no folder "{folder}"; give the folder that holds your runs')
    folders = [RunFolder(path.parent) for path in folder.rglob("config.yaml")]
    return [_row(run) for run in sorted(folders, key=_started)]


def _started(run: RunFolder) -> str:
    return _provenance(run).started


def _row(run: RunFolder) -> dict[str, Any]:
    from openjepa.core import config as configs

    try:
        config = configs.load({**settings.read(run.config), "imports": []})  # a list needs nobody's own parts
    except BadInput:
        return {"run": str(run.path), "status": "unreadable config"}
    rows = metrics.read(run.metrics)
    _, losses = metrics.series(rows, "train/loss")
    return {
        "run": str(run.path),
        "status": _provenance(run).status or "unknown",
        "method": config.method["name"],
        "model": config.model.name,
        "data": config.data.source,
        "steps": rows[-1]["step"] if rows else 0,
        "minutes": round(rows[-1]["wall"] / 60, 1) if rows else 0.0,
        "loss": round(losses[-1], 4) if losses else None,
        "watch": verdict.judge(rows).kind,
        **_scores(run),
    }


def _scores(run: RunFolder) -> dict[str, str]:
    """For each task evaluated with all labels: the accuracy of the trained encoder with the first of PROBES."""
    from openjepa.runs.scores import ALL_LABELS, TRAINED, percent, read

    scores = {}
    for path in sorted(run.evals.glob("*.json")):
        try:
            rows = read(path)
        except BadInput:  # copied in part; the other scores are still shown
            continue
        shown = [row for row in rows if row.representation == TRAINED and row.labels == ALL_LABELS]
        for row in sorted(shown, key=_preference, reverse=True):
            scores[row.task] = f"{percent(row.accuracy)} % {row.probe}"
    return scores


def _preference(score: "Score") -> int:
    return PROBES.index(score.probe) if score.probe in PROBES else len(PROBES)


def _provenance(run: RunFolder) -> "Provenance":
    from openjepa.runs import provenance

    try:
        return provenance.read(run)
    except BadInput:
        return provenance.Provenance()
