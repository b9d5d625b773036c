"""From a Config to what the training loop receives: its length, its numbers and its parts. `resolve` fills in every option."""

from typing import Any, Literal

import torch
from torch import nn

from openjepa.core import schema
from openjepa.core.config import DEFAULT_EPOCHS, Config
from openjepa.core.contracts import ChecksItself, Method, Monitor, monitors
from openjepa.core.duration import Duration
from openjepa.core.pace import Interval, Pace
from openjepa.data.batches.loader import Loader
from openjepa.machine import distributed
from openjepa.methods import build
from openjepa.training import loop, optim
from openjepa.training.budget.pacer import Pacer

GPU_CHECK_EVERY = 10  # steps: reading a number from a GPU makes it wait; on a CPU we check every step
CHECKS = 200  # at least in a run with a time budget: the clock is read at checks


def resolve(config: Config) -> Config:
    """Fills in every option of the method and the monitors, so that the run's config is complete."""
    watching = {
        name: False if options is False else _monitor_options(name, options)
        for name, options in config.monitors.items()
    }
    return config.model_copy(update={"method": build.resolve(config), "monitors": schema.plain(watching)})


def with_steps(config: Config, steps: int) -> Config:
    """The same config with its length in steps: runs of version 0.1 with a time budget stored that."""
    train = config.train.model_copy(update={"steps": steps, "minutes": None})
    return config.model_copy(update={"train": train})


def total_steps(config: Config, steps_per_epoch: int) -> int:
    """The length of a run that has no time budget."""
    train = config.train
    if train.steps is not None:
        return train.steps
    epochs = train.epochs if train.epochs is not None else DEFAULT_EPOCHS
    return max(round(epochs * steps_per_epoch), 1)


def loop_settings(
    config: Config,
    pace: Pace,
    *,
    steps_per_epoch: int,
    device: torch.device,
    precision: Literal["float32", "bfloat16"],
) -> loop.Settings:
    first = pace.total_at(0)
    gpu_check_every = GPU_CHECK_EVERY if config.train.minutes is None else min(GPU_CHECK_EVERY, first // CHECKS + 1)
    return loop.Settings(
        pace=pace,
        seed=config.seed,
        batch_size=config.train.batch_size,
        accumulate=config.train.accumulate,
        clip=config.optim.clip,
        precision=precision,
        device=device,
        checkpoint_every=interval(config, config.train.checkpoint_every, steps_per_epoch=steps_per_epoch, total=first),
        check_every=1 if device.type == "cpu" else gpu_check_every,
    )


def loop_parts(
    config: Config,
    method: Method,
    optimizer: torch.optim.Optimizer,
    loader: Loader,
    *,
    total: int,
    pacer: Pacer | None = None,
) -> loop.Parts:
    """`total` is the first plan's."""
    per_epoch = loader.order.steps_per_epoch
    return loop.Parts(
        method=method,
        trained=compile_and_wrap(config, method),
        optimizer=optimizer,
        rates=rates(config, steps_per_epoch=per_epoch, total=total),
        loader=loader,
        monitors=build_monitors(config, steps_per_epoch=per_epoch, total=total),
        pacer=pacer,
    )


def compile_and_wrap(config: Config, method: Method) -> nn.Module:
    """Compiles the networks if the config says so, and adds DistributedDataParallel if there are several processes."""
    if config.train.compile:
        for network in method.children():  # masks and losses stay eager: their shapes change from step to step
            if any(True for _ in network.parameters()):  # running means stay eager too: each step writes to them
                network.compile()
    return distributed.wrap(method)


def interval(config: Config, every: Duration, *, steps_per_epoch: int, total: int) -> Interval:
    """A percentage follows the progress of a run with a time budget, whose number of steps may change."""
    steps = max(every.steps(steps_per_epoch=steps_per_epoch, total=total), 1)
    is_share = config.train.minutes is not None and every.unit == "percent" and every.amount > 0
    return Interval(steps, every.amount / 100 if is_share else None)


def rates(config: Config, *, steps_per_epoch: int, total: int) -> optim.Rates:
    """`total` is the first plan's: a warm-up in steps or epochs becomes a share of it."""
    section = config.optim
    share = interval(config, section.warmup, steps_per_epoch=steps_per_epoch, total=total).share
    warmup_steps = section.warmup.steps(steps_per_epoch=steps_per_epoch, total=total)
    return optim.Rates(
        lr=section.lr,
        start_lr=section.start_lr,
        final_lr=section.final_lr,
        warmup=min(warmup_steps / total if share is None else share, 1.0),
        weight_decay=section.weight_decay,
    )


def build_monitors(config: Config, *, steps_per_epoch: int, total: int) -> list[tuple[Interval, Monitor]]:
    """(how often, monitor)."""
    switched_on = {name: options for name, options in config.monitors.items() if options is not False}
    built = [monitors[name](**_monitor_options(name, options)) for name, options in switched_on.items()]
    return [
        (interval(config, monitor.every, steps_per_epoch=steps_per_epoch, total=total), monitor) for monitor in built
    ]


def check_monitors(config: Config, encoder: nn.Module) -> None:
    """A monitor that needs data of its own, such as labelled images, reports before the run what is missing."""
    for _, monitor in build_monitors(config, steps_per_epoch=1, total=1):
        if isinstance(monitor, ChecksItself):
            monitor.check(encoder)


def _monitor_options(name: str, options: dict[str, Any]) -> dict[str, Any]:
    return schema.resolve(monitors[name], options, where=f"monitors.{name}")
