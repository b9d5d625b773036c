"""OpenJEPA: learn image representations from unlabelled images by predicting, in embedding space, parts from other parts."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["encoder", "evaluate", "load", "load_encoder", "method", "pretrain"]

_MODULES = {
    "pretrain": ("openjepa.training.pretrain", "pretrain"),
    "evaluate": ("openjepa.evaluation.evaluate", "evaluate"),
    "load": ("openjepa.weights.load", "load"),
    "load_encoder": ("openjepa.weights.load", "load_encoder"),
    "method": ("openjepa.methods.build", "named_method"),
    "encoder": ("openjepa.methods.build", "named_encoder"),
}


def __getattr__(name: str) -> Any:
    """Imports a public function on first use: `import openjepa` itself stays quick."""
    if name == "checks":
        return import_module("openjepa.checks")
    if name not in _MODULES:
        raise AttributeError(f"module 'openjepa' has no attribute '{name}'")
    module, function = _MODULES[name]
    return getattr(import_module(module), function)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "checks"})
