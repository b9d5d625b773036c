"""A part's constructor is its config schema: keyword-only arguments with types and defaults, checked by pydantic."""

import dataclasses
import inspect
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from openjepa.core.duration import Duration
from openjepa.core.errors import BadInput
from openjepa.core.registry import Registry, did_you_mean


def schema(part: type) -> type[BaseModel]:
    """The keyword-only arguments of a class as a pydantic model that refuses unknown keys."""
    hints = typing.get_type_hints(part.__init__, include_extras=True)  # type: ignore[misc]
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(part).parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            fields[name] = (hints[name], default)
    return create_model(
        part.__name__,
        __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=True, validate_default=True, allow_inf_nan=False),
        **fields,
    )


def resolve(part: type, values: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """Checked values with every default filled in; `where` is the dotted path that messages name."""
    return dict(validate(schema(part), _over_defaults(part, values), where=where))


def _over_defaults(part: type, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """A section that sets some keys keeps the part's defaults for the others, unless it names another part."""
    if not isinstance(values, Mapping):
        return values
    defaults = {name: plain(parameter.default) for name, parameter in inspect.signature(part).parameters.items()}
    return {name: _over(defaults.get(name), value) for name, value in values.items()}


def _over(default: Any, value: Any) -> Any:
    if not isinstance(default, Mapping) or not isinstance(value, Mapping):
        return value
    is_another = value.get("name", default.get("name")) != default.get("name")
    return value if is_another else {**default, **value}


def resolve_named(registry: Registry[Any], values: Mapping[str, Any], default: str | None = None) -> dict[str, Any]:
    """{name: …, options…} of a registered part, checked and completed; without a name it is the default part."""
    options = dict(values)
    name = options.pop("name", default)
    if name is None:
        raise BadInput(f'a {registry.kind} needs a name, such as "{registry.names()[0]}"')
    return {"name": name, **resolve(registry[name], options, where="")}


def build(registry: Registry[Any], values: Mapping[str, Any], *arguments: Any) -> Any:
    """The part itself from {name: …, options…}; `arguments` are its positional ones."""
    options = resolve_named(registry, values)
    return registry[options.pop("name")](*arguments, **options)


def plain(value: Any) -> Any:
    """Options as YAML can store them: durations as text, dataclasses as mappings, tuples as lists."""
    if isinstance(value, Duration):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def validate(model: type[Any], values: Mapping[str, Any], *, where: str = "") -> Any:
    """A pydantic model or a dataclass from plain values, or a BadInput that names the first invalid value."""
    if not isinstance(values, Mapping):
        raise BadInput(f'{where or "the config"} is "{values}"; expected a section with keys')
    try:
        return TypeAdapter(model).validate_python(dict(values))
    except ValidationError as error:
        raise BadInput(_sentence(error, model, where)) from None


def _sentence(error: ValidationError, model: type[Any], where: str) -> str:
    first = error.errors(include_url=False)[0]
    path = ".".join([*([where] if where else []), *(str(part) for part in first["loc"])])
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f'unknown setting "{path}"{did_you_mean(str(first["loc"][-1]), _keys_at(model, first["loc"][:-1]))}'
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, ValueError):
        return str(cause) if not path else f"{path}: {cause}"
    message = first["msg"][0].lower() + first["msg"][1:]
    return f"{path} is {first['input']!r}; {message}"


def _keys_at(model: Any, path: tuple[int | str, ...]) -> list[str]:
    """The known keys of the section at this path."""
    for part in path:
        model = model.model_fields[part].annotation
    if isinstance(model, type) and issubclass(model, BaseModel):
        return list(model.model_fields)
    return [field.name for field in dataclasses.fields(model)] if dataclasses.is_dataclass(model) else []
