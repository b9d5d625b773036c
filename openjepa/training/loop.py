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
from openjepa.core.pace import Interval, Pace
from openjepa.core.types import Batch, LossOutput, Step
from openjepa.data.batches.loader import Loader
from openjepa.machine import device as devices
from openjepa.machine import distributed
from openjepa.training import optim
from openjepa.training.budget.pacer import Pacer
from openjepa.training.step_timer import StepTimer

CONTINUE, REVIEW, STOP = range(3)  # what a process requests after a step; the largest request wins


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
    monitors: Sequence[tuple[Interval, Monitor]]
    pacer: Pacer | None = None  # revises the length of a run with a time budget


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The numbers of a run."""

    pace: Pace
    seed: int
    batch_size: int  # images of a step, over all processes and accumulation rounds
    accumulate: int
    clip: float | None
    precision: Literal["float32", "bfloat16"]
    device: torch.device
    checkpoint_every: Interval
    check_every: int  # steps between two checks for finite numbers, for the clock and for a requested stop

    def is_check_due(self, index: int) -> bool:
        """Always before a checkpoint: weights that are not finite must not be saved."""
        return self.is_saved(index + 1) or index % self.check_every == 0

    def is_saved(self, done: int) -> bool:
        return self.checkpoint_every.is_due(done, self.pace) or self.is_last(done)

    def is_last(self, done: int) -> bool:
        return done >= self.pace.total_at(done - 1)


class Hooks(Protocol):
    """What happens around the steps. `step` counts the steps that are done."""

    def record(self, step: int, values: Mapping[str, float]) -> None: ...

    def save_checkpoint(self, step: int) -> None: ...

    def should_stop(self) -> bool: ...


def run(parts: Parts, settings: Settings, hooks: Hooks, start: int = 0) -> int:
    """Trains from step `start` to the end or to a requested stop; returns the total number of steps done."""
    parts.trained.train()
    batches = parts.loader.batches(start)
    timer = StepTimer(max((interval.steps for interval, _ in parts.monitors), default=1))
    done = start
    while done < settings.pace.total_at(done):
        view = _step(parts, settings, done, batches)
        timer.add(view.step_seconds, view.wait_seconds)
        values = _observe(parts, settings.pace, view, timer)
        del view  # its tensors would live through the next step
        done += 1
        if values:
            hooks.record(done, values)
        request = _request(parts, settings, hooks, done) if settings.is_check_due(done - 1) else CONTINUE
        saves = request == STOP or settings.is_saved(done)
        if parts.pacer is not None and (saves or request == REVIEW) and not settings.is_last(done):
            settings = replace(settings, pace=parts.pacer.review(done))
        if saves:
            hooks.save_checkpoint(done)
        if request == STOP:
            break
    return done


def _request(parts: Parts, settings: Settings, hooks: Hooks, done: int) -> int:
    """The same on every process."""
    is_due = parts.pacer is not None and parts.pacer.is_due(done)
    return distributed.largest(STOP if hooks.should_stop() else REVIEW if is_due else CONTINUE, settings.device)


def _step(parts: Parts, settings: Settings, index: int, batches: Iterator[Batch]) -> View:
    """One optimiser step."""
    began = time.perf_counter()
    pace = settings.pace
    lr, weight_decay = parts.rates.at(pace.progress(index + 1))
    optim.set_rates(parts.optimizer, lr, weight_decay)
    parts.optimizer.zero_grad(set_to_none=True)  # now, so that monitors of the step before could read the gradients
    wait_seconds, loss = 0.0, torch.zeros((), device=settings.device)
    for accumulation_round in range(settings.accumulate):
        waiting = time.perf_counter()
        batch = next(batches)
        wait_seconds += time.perf_counter() - waiting
        rows = parts.loader.split.rows(accumulation_round)
        step = Step(
            index=index,
            total=pace.total_at(index),
            seed=settings.seed,
            batch_size=settings.batch_size,
            rows=rows,
            paced=pace.progress(index),
        )
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


def _observe(parts: Parts, pace: Pace, view: View, timer: StepTimer) -> dict[str, float]:
    """The values of all monitors that are due. All of them are due at step 0 and at the last step."""
    index = view.step.index
    values: dict[str, float] = {}
    for interval, monitor in parts.monitors:
        if interval.is_due(index, pace) or index == view.step.total - 1:
            seconds, waiting = timer.over(interval.since(index, pace))
            values.update(monitor(replace(view, step_seconds=seconds, wait_seconds=waiting)))
    return values
