"""Parts by name: a new mask, method, source, probe or monitor is one new file and nothing else.

A part registers itself in its own file. A registry imports the files of its folder on first use; `import_files` adds files
from elsewhere.
"""

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Generic, TypeVar

from openjepa.core.errors import BadInput

T = TypeVar("T")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """'; did you mean "x"?', or the list of known words."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1)
    return f'; did you mean "{close[0]}"?' if close else f"; known: {', '.join(known)}"


class Registry(Generic[T]):
    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package
        self._parts: dict[str, T] = {}
        self._modules: dict[str, str] = {}  # by part: the module that registered it
        self._is_loaded = False
        _registries.append(self)

    def register(self, name: str) -> Callable[[T], T]:
        module = sys._getframe(1).f_globals["__name__"]  # not part.__module__: a task is an object of our own class

        def decorate(part: T) -> T:
            if name in self._parts:
                raise BadInput(f'{self.kind} "{name}" is registered twice; choose another name for your own')
            self._parts[name], self._modules[name] = part, module
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

    def forget(self, module: str) -> None:
        """Removes the parts that this module registered."""
        for name in [name for name, registered_by in self._modules.items() if registered_by == module]:
            del self._parts[name], self._modules[name]

    def _load(self) -> None:
        if self._is_loaded:
            return
        package = importlib.import_module(self.package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self.package}.{module.name}")
        self._is_loaded = True


_registries: list[Registry[Any]] = []


def modules_of_others() -> list[str]:
    """The modules outside this package that have registered parts; a new process must import them."""
    modules = {module for registry in _registries for module in registry._modules.values()}
    return sorted(module for module in modules if module.partition(".")[0] != "openjepa")


def import_files(paths: Iterable[str | Path]) -> tuple[str, ...]:
    """Imports Python files that register parts, each once, and returns their absolute paths."""
    files = [Path(path).expanduser().absolute() for path in paths]
    for file in files:
        _import(file)
    return tuple(str(file) for file in files)


def check_imported(paths: Iterable[str]) -> None:
    """Refuses settings that need a file which nobody has imported: loading a run must never execute code by itself."""
    for path in paths:
        if Path(path).stem not in sys.modules:
            raise BadInput(
                f"these settings use parts from {path}; add --import {path} if you trust that file (in Python: import it first)"
            )


def _import(file: Path) -> None:
    """As a module named like its file, with its folder on the path, so that worker processes can import it, too."""
    _check_name(file)
    if file.stem not in sys.modules:
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        with ExitStack() as on_error:
            on_error.callback(_undo, file.stem, list(sys.path))
            sys.modules[file.stem] = module
            sys.path.append(str(file.parent))
            try:
                spec.loader.exec_module(module)
            except (SyntaxError, ImportError, BadInput) as error:  # anything else shows where in the file it happened
                raise BadInput(f"cannot import {file}: {error}") from error
            on_error.pop_all()


def _undo(module: str, path: list[str]) -> None:
    """Forgets a file that failed half-way, so that it can be imported once it is fixed."""
    sys.modules.pop(module, None)
    sys.path[:] = path
    for registry in _registries:
        registry.forget(module)


def _check_name(file: Path) -> None:
    if file.suffix != ".py" or not file.is_file():
        raise BadInput(f'no Python file "{file}" to import; if it was moved, give its new path')
    other = importlib.util.find_spec(file.stem) if file.stem.isidentifier() else None
    is_other = other is not None and other.origin is not None and Path(other.origin).resolve() != file.resolve()
    if is_other or not file.stem.isidentifier():  # one of two modules would hide the other
        raise BadInput(f'cannot import {file}: "{file.stem}" is not a free module name; rename the file')


def code_digest(part: type) -> str | None:
    """Of the file a part is from, so that a cache notices when somebody edits it; empty for the parts of this package.

    None for a part without a readable file, such as one from the interactive prompt: nobody can tell when it changes.
    """
    if part.__module__.partition(".")[0] == "openjepa":
        return ""
    try:
        return hashlib.sha256(Path(inspect.getfile(part)).read_bytes()).hexdigest()
    except (OSError, TypeError):  # inspect raises either, depending on the Python version
        return None
