"""The training loop. It knows no method, data set or metric by name: it receives things and does not make them.

Order of a step: rates from progress → training_step → finite? → backward → clip → finite? → optimiser → after_update →
monitors → record → checkpoint. All randomness of step i is a function of i, so a run can start anywhere.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from openjepa.core.contracts import Method, Monitor, View
from openjepa.core.errors import OpenJepaError
from openjepa.core.types import Batch, LossOutput, Step
from openjepa.data.batches.loader import Loader
from openjepa.machine import device as devices
from openjepa.machine import distributed
from openjepa.training import optim
from openjepa.training.step_timer import StepTimer


class NotFinite(OpenJepaError):
    """The loss or its gradient is not a number; the weights have not moved."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The things that the loop works with, made by someone else."""

    method: Method
    trained: nn.Module  # the method, or the method inside DistributedDataParallel
    optimizer: torch.optim.Optimizer
    rates: optim.Rates
    loader: Loader
    monitors: Sequence[tuple[int, Monitor]]  # (interval in steps, monitor)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The numbers of a run."""

    total: int  # steps
    seed: int
    batch_size: int  # images of a step, over all processes and accumulation rounds
    accumulate: int
    clip: float | None
    precision: Literal["float32", "bfloat16"]
    device: torch.device
    checkpoint_every: int  # steps
    check_every: int  # steps between two checks for finite numbers and for a requested stop

    def is_check_due(self, index: int) -> bool:
        """Always before a checkpoint: weights that are not finite must not be saved."""
        is_saved = (index + 1) % self.checkpoint_every == 0 or index + 1 == self.total
        return is_saved or index % self.check_every == 0


class Hooks(Protocol):
    """What happens around the steps. `step` counts the steps that are done."""

    def record(self, step: int, values: Mapping[str, float]) -> None: ...

    def save_checkpoint(self, step: int) -> None: ...

    def should_stop(self) -> bool: ...


def run(parts: Parts, settings: Settings, hooks: Hooks, start: int = 0) -> int:
    """Trains from step `start` to the end or to a requested stop; returns the total number of steps done."""
    parts.trained.train()
    batches = parts.loader.batches(start)
    timer = StepTimer(max((every for every, _ in parts.monitors), default=1))
    for index in range(start, settings.total):
        view = _step(parts, settings, index, batches)
        timer.add(view.step_seconds, view.wait_seconds)
        values = _observe(parts, view, timer)
        del view  # its tensors would live through the next step
        done = index + 1
        if values:
            hooks.record(done, values)
        stops = settings.is_check_due(index) and distributed.any_true(hooks.should_stop(), settings.device)
        if stops or done == settings.total or done % settings.checkpoint_every == 0:
            hooks.save_checkpoint(done)
        if stops:
            return done
    return settings.total


def _step(parts: Parts, settings: Settings, index: int, batches: Iterator[Batch]) -> View:
    """One optimiser step."""
    began = time.perf_counter()
    lr, weight_decay = parts.rates.at(index)
    optim.set_rates(parts.optimizer, lr, weight_decay)
    parts.optimizer.zero_grad(set_to_none=True)  # now, so that monitors of the step before could read the gradients
    wait_seconds, loss = 0.0, torch.zeros((), device=settings.device)
    for accumulation_round in range(settings.accumulate):
        waiting = time.perf_counter()
        batch = next(batches)
        wait_seconds += time.perf_counter() - waiting
        rows = parts.loader.split.rows(accumulation_round)
        step = Step(index=index, total=settings.total, seed=settings.seed, batch_size=settings.batch_size, rows=rows)
        is_last = accumulation_round == settings.accumulate - 1
        output = _gradients(parts, settings, batch, step, is_last)
        loss += output.loss.detach() / settings.accumulate
    norm = _clip(parts, settings, index)
    parts.optimizer.step()
    parts.method.after_update(step)
    return View(
        step=step,
        method=parts.method,
        output=replace(output, loss=loss),
        gradient_norm=norm,
        lr=lr,
        weight_decay=weight_decay,
        step_seconds=time.perf_counter() - began,
        wait_seconds=wait_seconds,
        batch=batch,
    )


def _gradients(parts: Parts, settings: Settings, batch: Batch, step: Step, is_last: bool) -> LossOutput:
    """Adds this round's gradients; processes exchange them in the last round only."""
    trained = parts.trained
    with trained.no_sync() if isinstance(trained, DistributedDataParallel) and not is_last else nullcontext():
        with devices.autocast(settings.precision, settings.device):
            output: LossOutput = trained(batch, step)
        if settings.is_check_due(step.index) and not math.isfinite(output.loss.item()):
            raise NotFinite(_advice("loss", step.index))
        (output.loss / settings.accumulate).backward()
    return output


def _clip(parts: Parts, settings: Settings, index: int) -> float:
    """Clips the gradient to `clip`, if it is set; returns the norm before clipping, or nan when no check is due."""
    parameters = [p for group in parts.optimizer.param_groups for p in group["params"] if p.grad is not None]
    norm = nn.utils.get_total_norm([p.grad for p in parameters])
    if settings.clip is not None:
        nn.utils.clip_grads_with_norm_(parameters, settings.clip, norm)
    if not settings.is_check_due(index):
        return math.nan
    if not math.isfinite(norm.item()):
        raise NotFinite(_advice("gradient", index))
    return norm.item()


def _advice(what: str, index: int) -> str:
    return (
        f"the {what} of step {index} is not finite; the weights did not change. Try a lower optim.lr, a longer optim.warmup, "
        "optim.clip=1, or train.precision=float32; then start over, or --resume from the last checkpoint"
    )


def _observe(parts: Parts, view: View, timer: StepTimer) -> dict[str, float]:
    """The values of all monitors that are due. All of them are due at step 0 and at the last step."""
    index = view.step.index
    values: dict[str, float] = {}
    for every, monitor in parts.monitors:
        if index % every == 0 or index == view.step.total - 1:
            seconds, waiting = timer.over(index % every or every)
            values.update(monitor(replace(view, step_seconds=seconds, wait_seconds=waiting)))
    return values
