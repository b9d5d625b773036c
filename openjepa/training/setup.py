"""From a Config to what the training loop is given: its length, rates and monitors. `resolve` fills in every option."""

from typing import Any

from torch import nn

from openjepa.core import schema
from openjepa.core.config import DEFAULT_EPOCHS, Config
from openjepa.core.contracts import Monitor, monitors
from openjepa.methods import build
from openjepa.training import optim


def resolve(config: Config) -> Config:
    """Every option of the method and the monitors with its value, so that the run's config says all."""
    watching = {
        name: False if given is False else _monitor_options(name, given) for name, given in config.monitors.items()
    }
    return config.model_copy(update={"method": build.resolve(config), "monitors": schema.plain(watching)})


def total_steps(config: Config, steps_per_epoch: int) -> int:
    """The length of the run; `minutes` must have been turned into steps before."""
    train = config.train
    if train.steps is not None:
        return train.steps
    epochs = train.epochs if train.epochs is not None else DEFAULT_EPOCHS
    return max(round(epochs * steps_per_epoch), 1)


def rates(config: Config, *, steps_per_epoch: int, total: int) -> optim.Rates:
    section = config.optim
    return optim.Rates(
        lr=section.lr,
        start_lr=section.start_lr,
        final_lr=section.final_lr,
        warmup_steps=section.warmup.steps(steps_per_epoch=steps_per_epoch, total=total),
        weight_decay=section.weight_decay,
        total=total,
    )


def watchers(config: Config, *, steps_per_epoch: int, total: int) -> list[tuple[int, Monitor]]:
    """(every so many steps, monitor)."""
    switched_on = {name: given for name, given in config.monitors.items() if given is not False}
    built = [monitors[name](**_monitor_options(name, given)) for name, given in switched_on.items()]
    return [(max(monitor.every.steps(steps_per_epoch=steps_per_epoch, total=total), 1), monitor) for monitor in built]


def check_watchers(config: Config, encoder: nn.Module) -> None:
    """A monitor that needs something of its own, such as labelled pictures, says before the run begins what is missing."""
    for _, monitor in watchers(config, steps_per_epoch=1, total=1):
        check = getattr(monitor, "check", None)
        if check is not None:
            check(encoder)


def _monitor_options(name: str, given: dict[str, Any]) -> dict[str, Any]:
    return schema.resolve(monitors[name], given, where=f"monitors.{name}")
