"""The cost of a pretraining run before it starts: FLOP, memory, hours and money, from the model's real shapes.

The utilisation, the share of a GPU's peak that training reaches, is a guess. docs/plan.md says where a plan goes wrong.
"""

import math
from dataclasses import dataclass
from typing import Literal

from openjepa.core.config import Config
from openjepa.core.errors import BadInput
from openjepa.data.batches.order import Order, Split
from openjepa.planning import cost, memory, published
from openjepa.planning.cost import Work
from openjepa.planning.gpus import Gpu, find
from openjepa.planning.memory import Memory
from openjepa.training import setup

# What transformers reach on data-centre GPUs when the data keeps up; the published run implies half of it: published.py
UTILISATION = 0.4


@dataclass(frozen=True)
class Assumptions:
    """What a plan assumes."""

    gpu: Gpu
    gpus: int
    utilisation: float  # share of the peak
    price: float  # USD per GPU hour
    num_images: int  # in the data set
    images_from: str  # set, counted or published
    precision: Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Plan:
    config: Config  # every value resolved
    assumed: Assumptions
    images_at_a_time: int  # on one device, in one accumulation round
    work: Work
    ddp: Memory
    fsdp: Memory

    @property
    def images_per_second(self) -> float:
        assumed = self.assumed
        peak = assumed.gpu.peak(assumed.precision)
        return assumed.gpus * peak * assumed.utilisation / self.work.flops

    @property
    def steps(self) -> int:
        train, minutes = self.config.train, self.config.train.minutes
        if minutes is not None:
            return max(int(60 * minutes * self.images_per_second / train.batch_size), 1)
        return setup.total_steps(self.config, self.assumed.num_images // train.batch_size)

    @property
    def hours(self) -> float:
        return self.steps * self.config.train.batch_size / self.images_per_second / 3600

    @property
    def gpu_hours(self) -> float:
        return self.hours * self.assumed.gpus

    @property
    def cost(self) -> float:
        """USD."""
        return self.gpu_hours * self.assumed.price


def plan(
    config: Config,
    *,
    gpu: str = "a100-80",
    gpus: int = 1,
    utilisation: float = UTILISATION,
    price: float | None = None,
    num_images: int | None = None,
) -> Plan:
    """Counts one step of the config; `price` and `num_images` replace the assumed price and the counted images."""
    config = setup.resolve(config)
    assumed = _assumptions(config, find(gpu), gpus, utilisation, price, num_images)
    train = config.train
    Order(assumed.num_images, train.batch_size, config.seed)  # rejects a batch larger than the data …
    # … or one that the GPUs cannot share equally
    split = Split(batch_size=train.batch_size, accumulate=train.accumulate, world_size=gpus)
    work = cost.count(config, num_images=split.size, precision=assumed.precision)
    return Plan(
        config=config,
        assumed=assumed,
        images_at_a_time=split.size,
        work=work,
        ddp=memory.ddp(work, num_images=split.size, gpus=gpus),
        fsdp=memory.fsdp(work, num_images=split.size, gpus=gpus),
    )


def _assumptions(
    config: Config, gpu: Gpu, gpus: int, utilisation: float, price: float | None, num_images: int | None
) -> Assumptions:
    if not 0 < utilisation <= 1:
        raise BadInput(f"utilisation {utilisation:g} is not a share of the peak; use a number above 0 and at most 1")
    if price is not None and not 0 <= price < math.inf:
        raise BadInput(f"price {price:g} is not an amount of USD per GPU hour; use 0 or more")
    number, images_from = published.num_images(config, num_images)
    return Assumptions(
        gpu=gpu,
        gpus=gpus,
        utilisation=utilisation,
        price=gpu.price if price is None else price,
        num_images=number,
        images_from=images_from,
        precision=gpu.precision(config.train.precision),
    )
