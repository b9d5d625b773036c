"""A dataclass as a JSON object that another version may have written.

A missing key gets its default. An unknown key moves to the field `extra`, and writing puts it back: nothing is lost when an
older version rewrites a file.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from openjepa.core import schema

EXTRA = "extra"
T = TypeVar("T")


def load(kind: type[T], values: Any, *, where: str) -> T:
    """`kind` has a field `extra`; `where` names the object in messages."""
    record: T = schema.validate(kind, _with_extra(kind, values), where=where)
    return record


def dump(record: Any) -> dict[str, Any]:
    values = dict(vars(record))
    extra = values.pop(EXTRA)
    return {**{name: dump(value) if is_dataclass(value) else value for name, value in values.items()}, **extra}


def _with_extra(kind: Any, values: Any) -> Any:
    """A null of a known key is a missing value."""
    if not isinstance(values, Mapping):
        return values  # validation refuses it
    types = {each.name: each.type for each in fields(kind) if each.name != EXTRA}
    known = {name: value for name, value in values.items() if name in types and value is not None}
    for name, value in known.items():
        known[name] = _with_extra(types[name], value) if is_dataclass(types[name]) else value
    return {**known, EXTRA: {name: value for name, value in values.items() if name not in types}}
