"""Saved predictions of probes. The baselines of a task (raw pixels, random weights) are the same for every run: fitted once.

The key is a hash of everything a prediction depends on: the probe, its options, all features it was fitted on and tested on.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from openjepa.core.contracts import Probe
from openjepa.core.registry import code_digest
from openjepa.core.types import Features
from openjepa.machine import cache

VERSION = "2"  # raise it whenever a probe predicts differently: old entries must not be used


@dataclass(frozen=True, kw_only=True)
class Prediction:
    guesses: Tensor  # [S] classes
    chosen: dict[str, Any]  # what the probe chose by itself
    seconds: float  # of fitting and predicting


def key(probe: type[Probe], description: str, train: Features, test: Features) -> str | None:
    """`description` is the probe's name, seed and options. None: no file holds the probe's code, so nothing is saved."""
    code = code_digest(probe)
    if code is None:
        return None
    return cache.key("answer", VERSION, description + code, _content(train), _content(test))


def load(key: str | None) -> Prediction | None:
    stored = None if key is None else cache.load(key)
    if stored is None:
        return None
    chosen = json.loads(stored["chosen"].numpy().tobytes())
    return Prediction(guesses=stored["guesses"], chosen=chosen, seconds=float(stored["seconds"]))


def save(key: str, prediction: Prediction) -> None:
    chosen = torch.frombuffer(bytearray(json.dumps(prediction.chosen).encode()), dtype=torch.uint8)
    seconds = torch.tensor(prediction.seconds, dtype=torch.float64)
    cache.store(key, {"guesses": prediction.guesses, "chosen": chosen, "seconds": seconds})


def _content(features: Features) -> str:
    """A hash of every number."""
    digest = hashlib.sha256()
    for tensor in (features.vectors, features.labels, features.layers, *features.views):
        if tensor is not None:
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
            digest.update(tensor.contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()
