"""`openjepa speedrun`: the race of docs/speedrun.md."""

from pathlib import Path

from openjepa.cli import tables
from openjepa.cli.options import Count, Imports, Overrides
from openjepa.core.errors import BadInput


def speedrun(
    config: str = "speedrun",
    *,
    data: str,
    track: float = 0.2,
    seeds: Count = 2,
    change: str = "",
    run: Path | None = None,
    set_: Overrides = None,
    imports: Imports = (),
) -> None:
    """Race on CIFAR-10 with a budget of counted operations: pretrain, then k-NN and logistic regression on the test split.

    Example: openjepa speedrun --data cifar10:DIR

    Rules and records: docs/speedrun.md. A stopped race resumes with the same command.

    Args:
        config: A recipe by name or a YAML file; default: the record.
        data: CIFAR-10, such as cifar10:DIR or npz:FILE.
        track: PFLOP of training: 0.2 (about 20 minutes on two cores) or 2.
        seeds: Runs, with seeds 0, 1, …; a record needs two.
        change: What is new, in a few words, for the table of records.
        run: The folder of the race; default: runs/speedrun-CONFIG-TRACK.
        set_: Any setting by its dotted path; repeatable.
    """
    from openjepa.core import settings
    from openjepa.studies import speedrun as races

    if track not in races.TRACKS:
        raise BadInput(f"track {track:g} is not one of {', '.join(f'{each:g}' for each in races.TRACKS)} PFLOP")
    given = dict(settings.parse_override(override) for override in set_ or [])
    if imports:
        given["imports"] = list(imports)
    folder = run or Path(f"runs/speedrun-{Path(config).stem}-{track:g}")
    record = races.race(
        config, data, track=track, seeds=range(seeds), folder=folder, change=change or config, given=given
    )
    tables.say(record.row())
