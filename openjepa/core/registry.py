"""Parts by name. A part registers itself in its own file; the registry imports its package's files on first use,

so a new mask, method, source, probe or monitor is one new file and nothing else.
"""

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from openjepa.core.errors import BadInput

T = TypeVar("T")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """'; did you mean "x"?' or the list of what there is."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1)
    return f'; did you mean "{close[0]}"?' if close else f"; known: {', '.join(known)}"


class Registry(Generic[T]):
    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package
        self._parts: dict[str, T] = {}
        self._is_loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        def decorate(part: T) -> T:
            if name in self._parts:
                raise ValueError(f'{self.kind} "{name}" is registered twice')
            self._parts[name] = part
            return part

        return decorate

    def names(self) -> list[str]:
        self._load()
        return sorted(self._parts)

    def __getitem__(self, name: str) -> T:
        self._load()
        if name not in self._parts:
            raise BadInput(f'unknown {self.kind} "{name}"{did_you_mean(str(name), self._parts)}')
        return self._parts[name]

    def __contains__(self, name: str) -> bool:
        self._load()
        return name in self._parts

    def _load(self) -> None:
        if self._is_loaded:
            return
        package = importlib.import_module(self.package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self.package}.{module.name}")
        self._is_loaded = True
