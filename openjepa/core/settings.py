"""Settings as plain values, before they are checked: read a YAML file, set by dotted path, compare."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from openjepa.core.errors import BadInput

LENGTHS = ("epochs", "steps", "minutes")
BUDGETS = tuple(f"train.{name}" for name in LENGTHS)


def read(path: Path) -> dict[str, Any]:
    """The plain values of a YAML file."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f'no config file "{path}"; give a YAML file or leave it out for the defaults') from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        detail = " ".join(str(error).split())
        raise BadInput(f'"{path}" is not a readable YAML file: {detail}') from None
    except OSError as error:
        raise BadInput(f'cannot read config file "{path}": {error.strerror}') from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise BadInput(f'"{path}" holds a {type(values).__name__}; a config is a mapping of sections')
    return values


def put(values: dict[str, Any], path: str, value: Any) -> None:
    """Sets a value by its dotted path, in place."""
    *sections, key = path.split(".")
    for section in sections:
        inner = values.setdefault(section, {})
        if not isinstance(inner, dict):
            raise BadInput(f'{section} is "{inner}" in the config; expected a section with keys such as {key}')
        values = inner
    if key in LENGTHS and value is not None:  # a new length replaces the one from the file
        for other in LENGTHS:
            values.pop(other, None)
    values[key] = value


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested sections -> values by dotted path.

    >>> from openjepa.core.settings import flat
    >>> flat({"seed": 1, "method": {"masks": {"name": "block"}}})
    {'seed': 1, 'method.masks.name': 'block'}
    """
    paths: dict[str, Any] = {}
    for key, value in values.items():
        paths |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) and value else {f"{prefix}{key}": value}
    return paths


def has(values: Mapping[str, Any], path: str) -> bool:
    """Whether there is a value at this dotted path."""
    for key in path.split("."):
        if not isinstance(values, Mapping) or key not in values:
            return False
        values = values[key]
    return True


def parse_override(override: str) -> tuple[str, Any]:
    """`a.b=c` -> ("a.b", c), the value read as YAML."""
    path, separator, text = override.partition("=")
    if not separator or not all(path.strip().split(".")):
        raise BadInput(f'"--set {override}" is not of the form key=value, such as --set optim.lr=1e-3')
    try:
        return path.strip(), yaml.safe_load(text)
    except yaml.YAMLError:
        raise BadInput(
            f'the value in "--set {override}" is not readable; put text with special characters in quotes'
        ) from None


def copied(values: Any) -> Any:
    """Sections are copied, values are not."""
    return {key: copied(value) for key, value in values.items()} if isinstance(values, Mapping) else values


def difference(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any, Any]]:
    """(dotted path, old value, new value) of each setting that differs."""
    rows = []
    for key in dict.fromkeys([*old, *new]):
        before, after = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            rows += difference(before, after, f"{prefix}{key}.")
        elif before != after:
            rows.append((f"{prefix}{key}", before, after))
    return rows
