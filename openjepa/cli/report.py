"""`openjepa report`: one HTML page about a run."""

from pathlib import Path

from openjepa.cli import tables


def report(run: Path) -> None:
    """Write RUN/report.html: curves, masks, attention, PCA, predictions, scores; one file, no network needed.

    Example: openjepa report runs/mine

    Args:
        run: A run folder.
    """
    from openjepa.report.write import write

    tables.say(f"written: {write(run)}")
