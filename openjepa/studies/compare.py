"""`openjepa compare`: methods on the same encoder, data and evaluation, at an equal budget."""

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
OTHERS = "others"  # the group of methods that compare.yaml does not list, such as a user's own


def study(names: Sequence[str], terms: Terms) -> Study:
    """`names` are methods, or "all"."""
    if len(names) != len(set(names)):
        raise BadInput(f"a method is named twice in {', '.join(names)}; name each once")
    for name in names:
        if name != EVERYTHING:
            methods[name]  # raises with a suggestion
    arms = [arm for arm in known(terms.base) if EVERYTHING in names or arm.name in names]
    _check_options_are_used(terms.base, [arm.name for arm in arms])
    who = f"{len(arms)} methods" if len(arms) > 1 else arms[0].name
    return Study(f"{who}, {terms.title}", terms, tuple(arms), published=settings.read(RECIPES)["published"])


def _check_options_are_used(base: dict[str, Any], names: Sequence[str]) -> None:
    options = base.get("method") or {}
    owner = options.get("name", DEFAULT_METHOD)
    unused = [key for key in options if key != "name"]
    if unused and owner not in names:
        raise BadInput(
            f"method.{unused[0]} is an option of {owner}, which is not compared; name its method, for example with "
            f"--set method.name={names[0]}, or remove it"
        )


def known(base: dict[str, Any]) -> list[Arm]:
    """Every registered method, those of compare.yaml first."""
    groups = settings.read(RECIPES)["groups"]
    arms = [_arm(name, entry, group, base) for group, named in groups.items() for name, entry in named.items()]
    names = {arm.name for arm in arms}
    return arms + [_arm(name, {}, OTHERS, base) for name in methods.names() if name not in names]


def _arm(name: str, entry: dict[str, Any], group: str, base: dict[str, Any]) -> Arm:
    """The base's method options apply to its own method only. A setting of the base wins over compare.yaml."""
    is_base_method = (base.get("method") or {}).get("name", DEFAULT_METHOD) == name
    method = {"method.name": name} if is_base_method else {"method": {"name": name}}
    shared = base if is_base_method else {key: section for key, section in base.items() if key != "method"}
    defaults = {path: value for path, value in entry.get("set", {}).items() if not settings.has(shared, path)}
    return Arm(name, {**method, **defaults}, group, entry.get("published"))
