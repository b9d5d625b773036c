"""What a probe answered before: the floors of a task (raw pixels, random weights) are the same for every run and fitted once.

An answer is kept under the hash of everything it comes from: the probe and its options, every number it was fitted on, every
number it was asked about.
"""

import hashlib
import json
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from openjepa.core.contracts import Probe
from openjepa.core.registry import code_digest
from openjepa.core.types import Features
from openjepa.machine import cache

VERSION = "1"  # raise it whenever a probe answers differently: old answers must not be taken for new ones


@dataclass(frozen=True)
class Answer:
    guesses: Tensor  # [S] classes
    chosen: dict[str, Any]  # what the probe decided by itself
    seconds: float  # of fitting and predicting, when it was done


def asked(probe: Probe, train: Features, test: Features) -> Answer:
    began = time.perf_counter()
    guesses = probe.fit(train).predict(test)
    return Answer(guesses, probe.chosen, time.perf_counter() - began)


def asked_once(probe: Probe, description: str, train: Features, test: Features) -> Answer:
    """From the disk cache, if the same was asked before; `description` is the probe's name and options."""
    key = cache.key("answer", VERSION, description + code_digest(type(probe)), _content(train), _content(test))
    stored = cache.load(key)
    if stored is not None:
        return Answer(stored["guesses"], _from_bytes(stored["chosen"]), float(stored["seconds"]))
    answer = asked(probe, train, test)
    seconds = torch.tensor(answer.seconds, dtype=torch.float64)
    cache.store(key, {"guesses": answer.guesses, "chosen": _to_bytes(answer.chosen), "seconds": seconds})
    return answer


def _content(features: Features) -> str:
    """A hash of every number."""
    digest = hashlib.sha256()
    for tensor in (features.vectors, features.labels, features.layers, *features.views):
        if tensor is not None:
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
            digest.update(tensor.contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _to_bytes(values: dict[str, Any]) -> Tensor:
    return torch.frombuffer(bytearray(json.dumps(values).encode()), dtype=torch.uint8)


def _from_bytes(stored: Tensor) -> dict[str, Any]:
    return json.loads(stored.numpy().tobytes())
