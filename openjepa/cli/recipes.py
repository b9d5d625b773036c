"""`openjepa recipes`: the settings that come with the package, and what to expect of them."""

import textwrap
from dataclasses import asdict

from openjepa.cli import tables
from openjepa.cli.options import AsJson

WIDTH = 100  # characters of text in a line


def recipes(name: str | None = None, *, json: AsJson = False) -> None:
    """List the recipes, or show one of them: machine, time, expected numbers, commands.

    Example: openjepa recipes

    Example: openjepa recipes cifar10_20min

    Use one by its name: openjepa pretrain cifar10_20min --data cifar10:DIR

    Args:
        name: A recipe; default: a list of all.
    """
    from openjepa.training import recipe

    described = [recipe.describe(each) for each in ([name] if name else recipe.names())]
    if json:
        tables.as_json_text([asdict(each) for each in described])
    elif name:
        _show(asdict(described[0]))
    else:
        tables.rows(
            [{"recipe": each.name, "time": _short(each.time), "expected": each.score} for each in described],
            as_json=False,
        )
        tables.say("openjepa recipes NAME shows the machine, the expected numbers and the commands")


def _show(values: dict[str, str]) -> None:
    for title, text in values.items():
        if text:
            lines = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
            tables.say(f"{title:<9} " + f"\n{'':<10}".join(lines))


def _short(text: str) -> str:
    """Up to the first comma."""
    return text.partition(",")[0]
