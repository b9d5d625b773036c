"""How long a call takes, on a CPU or a GPU."""

import time
from collections.abc import Callable

import torch


def seconds_of(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began
