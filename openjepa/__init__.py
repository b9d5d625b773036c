"""OpenJEPA: learn image representations from unlabelled pictures by predicting, in embedding space, parts from other parts."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["evaluate", "load", "load_encoder", "pretrain"]

_PLACES = {
    "pretrain": "openjepa.training.pretrain",
    "evaluate": "openjepa.evaluation.evaluate",
    "load": "openjepa.weights.load",
    "load_encoder": "openjepa.weights.load",
}


def __getattr__(name: str) -> Any:
    """The public functions, imported when they are first asked for: `import openjepa` itself does nothing."""
    if name not in _PLACES:
        raise AttributeError(f"module 'openjepa' has no attribute '{name}'")
    return getattr(import_module(_PLACES[name]), name)
