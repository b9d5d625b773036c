"""`openjepa compare`: all methods on the same encoder, data and evaluation, at an equal budget."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openjepa.core import settings
from openjepa.core.config import DEFAULT_METHOD
from openjepa.core.contracts import methods
from openjepa.core.errors import BadInput
from openjepa.studies.study import Arm, Study, Terms

RECIPES = Path(__file__).with_name("compare.yaml")
EVERYTHING = "all"
OTHERS = "others"  # methods that the file does not know: those of a user


def study(names: Sequence[str], terms: Terms) -> Study:
    """`names` are methods, or "all"."""
    if len(names) != len(set(names)):
        raise BadInput(f"a method is named twice in {', '.join(names)}; name each once")
    for name in names:
        if name != EVERYTHING:
            methods[name]  # or a sentence with what was perhaps meant
    arms = [arm for arm in known(terms.base) if EVERYTHING in names or arm.name in names]
    _check_options_are_used(terms.base, [arm.name for arm in arms])
    who = f"{len(arms)} methods" if len(arms) > 1 else arms[0].name
    return Study(f"{who}, {terms.words}", terms, tuple(arms), published=settings.read(RECIPES)["published"])


def _check_options_are_used(base: dict[str, Any], names: Sequence[str]) -> None:
    given = base.get("method") or {}
    owner = given.get("name", DEFAULT_METHOD)
    unused = [key for key in given if key != "name"]
    if unused and owner not in names:
        raise BadInput(
            f"method.{unused[0]} is an option of {owner}, which is not compared; say whose it is, such as "
            f"--set method.name={names[0]}, or leave it out"
        )


def known(base: dict[str, Any]) -> list[Arm]:
    """Every method that there is, those of the file first."""
    groups = settings.read(RECIPES)["groups"]
    arms = [_arm(name, given, group, base) for group, named in groups.items() for name, given in named.items()]
    names = {arm.name for arm in arms}
    return arms + [_arm(name, {}, OTHERS, base) for name in methods.names() if name not in names]


def _arm(name: str, given: dict[str, Any], group: str, base: dict[str, Any]) -> Arm:
    """The base's options of a method are for that one only; where the base says something, it wins over the file."""
    is_the_bases = (base.get("method") or {}).get("name", DEFAULT_METHOD) == name
    chosen = {"method.name": name} if is_the_bases else {"method": {"name": name}}
    shared = base if is_the_bases else {key: section for key, section in base.items() if key != "method"}
    usual = {path: value for path, value in given.get("set", {}).items() if not settings.has(shared, path)}
    return Arm(name, {**chosen, **usual}, group, given.get("published"))
