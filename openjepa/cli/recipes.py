"""`openjepa recipes`: the settings that come with the package, and what to expect of them."""

from dataclasses import asdict

from openjepa.cli import tables
from openjepa.cli.options import AsJson


def recipes(*, json: AsJson = False) -> None:
    """List the recipes: what they train, on which machine, how long, and the expected numbers.

    Example: openjepa recipes

    Use one by its name: openjepa pretrain cifar10_20min --data cifar10:DIR
    """
    from openjepa.training import recipe

    described = [recipe.describe(name) for name in recipe.names()]
    if json:
        tables.as_json_text([asdict(each) for each in described])
        return
    for each in described:
        tables.say(f"{each.name}: {each.what}")
        for title in ("machine", "time", "expected", "command", "evaluate"):
            text = asdict(each)[title]
            if text:
                tables.say(f"  {title:<9} {text}")
