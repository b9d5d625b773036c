"""What `recipe: auto` knows before it decides: the images, the machine and the budget."""

import statistics
from dataclasses import dataclass
from typing import Literal

import torch

from openjepa.core.contracts import Source
from openjepa.core.errors import BadInput
from openjepa.data import check
from openjepa.machine import arrangement
from openjepa.machine import device as devices

SAMPLE = 24  # images whose size we look at


@dataclass(frozen=True)
class Images:
    number: int
    height: int  # of a typical image: the medians of a sample
    width: int


@dataclass(frozen=True)
class Machine:
    device: Literal["cpu", "cuda"]
    count: int  # usable cores, or GPUs
    flops: float  # float32 operations per second of all of them together, measured
    bfloat16_gain: float  # how many times as fast bfloat16 is; 0 where it does not work
    gibibytes: float  # of memory per GPU; 0: not known, or a CPU

    @property
    def speed(self) -> float:
        return self.flops * max(self.bfloat16_gain, 1.0)


@dataclass(frozen=True)
class Budget:
    """One of them is set."""

    minutes: float | None = None
    epochs: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        assert sum(length is not None for length in (self.minutes, self.epochs, self.steps)) == 1

    def __str__(self) -> str:
        if self.minutes is not None:
            return f"{self.minutes:g} minutes"
        return f"{self.epochs:g} epochs" if self.epochs is not None else f"{self.steps} steps"


def look_at(source: Source, name: str) -> Images:
    """The number of images, and the median size of a few that are spread over the source."""
    number = len(source)
    chosen = range(0, number, max(number // SAMPLE, 1))[:SAMPLE]
    sizes = [size for size in (check.size_of(source, index) for index in chosen) if size is not None]
    if not sizes:
        raise BadInput(f"none of {len(chosen)} images of {name} can be read; run: openjepa data check {name}")
    return Images(number, *(round(statistics.median(side)) for side in zip(*sizes, strict=True)))


def measure() -> Machine:
    """Takes some seconds."""
    if torch.cuda.is_available():
        speed, count = devices.measure("cuda"), torch.cuda.device_count()
        return Machine("cuda", count, count * speed.flops, speed.gain, speed.gibibytes)
    speed, cores = devices.measure("cpu"), arrangement.usable_cores()
    return Machine("cpu", cores, cores * speed.flops, speed.gain, gibibytes=0.0)
