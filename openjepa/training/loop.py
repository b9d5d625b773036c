"""The training loop. It knows no method, data set or metric by name: it receives things and does not make them.

Order of a step: rates from progress → training_step → finite? → backward → clip → finite? → optimiser → after_update →
monitors → record → checkpoint. All randomness of step i is a function of i, so a run can start anywhere.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from openjepa.core.contracts import Method, Monitor, View
from openjepa.core.errors import OpenJepaError
from openjepa.core.types import Batch, LossOutput, Step
from openjepa.machine import device as devices
from openjepa.machine import distributed
from openjepa.training import optim
from openjepa.training.step_timer import Pace


class NotFinite(OpenJepaError):
    """The loss or its gradient is not a number; the weights have not moved."""


class Rows(Protocol):
    """Which part of a global batch an accumulation round of this process works on."""

    def rows(self, accumulation_round: int) -> slice: ...


@dataclass(frozen=True)
class Training:
    """Everything the loop needs, made by someone else."""

    method: Method
    trained: nn.Module  # the method, or the method inside DistributedDataParallel
    optimizer: torch.optim.Optimizer
    rates: optim.Rates
    batches: Callable[[int], Iterator[Batch]]
    split: Rows
    seed: int
    batch_size: int
    accumulate: int
    total: int
    clip: float | None
    precision: Literal["float32", "bfloat16"]
    device: torch.device
    monitors: Sequence[tuple[int, Monitor]]  # (every so many steps, monitor)
    record: Callable[[int, Mapping[str, float]], None]
    checkpoint_every: int
    save: Callable[[int], None]
    check_every: int  # steps between looking whether numbers are finite and whether to stop
    should_stop: Callable[[], bool]


def run(training: Training, start: int = 0) -> int:
    """Trains from step `start` to the end or to a requested stop; returns the number of steps done in all."""
    training.trained.train()
    batches = training.batches(start)
    pace = Pace(max((every for every, _ in training.monitors), default=1))
    for index in range(start, training.total):
        view = _step(training, index, batches)
        pace.add(view.step_seconds, view.wait_seconds)
        _observe(training, view, pace)
        del view  # its tensors would live through the next step
        done = index + 1
        stops = _is_check_due(training, index) and distributed.any_true(training.should_stop(), training.device)
        if stops or done == training.total or done % training.checkpoint_every == 0:
            training.save(done)
        if stops:
            return done
    return training.total


def _step(training: Training, index: int, batches: Iterator[Batch]) -> View:
    """One optimiser step."""
    began = time.perf_counter()
    lr, weight_decay = training.rates.at(index)
    optim.set_rates(training.optimizer, lr, weight_decay)
    training.optimizer.zero_grad(set_to_none=True)  # now, so that monitors of the step before could look at them
    wait_seconds, loss = 0.0, torch.zeros((), device=training.device)
    for accumulation_round in range(training.accumulate):
        waiting = time.perf_counter()
        batch = next(batches)
        wait_seconds += time.perf_counter() - waiting
        rows = training.split.rows(accumulation_round)
        step = Step(index, training.total, training.seed, training.batch_size, rows)
        is_last = accumulation_round == training.accumulate - 1
        output = _gradients(training, batch, step, is_last)
        loss += output.loss.detach() / training.accumulate
    norm = _clip(training, index)
    training.optimizer.step()
    training.method.after_update(step)
    seconds = time.perf_counter() - began
    output = replace(output, loss=loss)
    return View(step, training.method, output, norm, lr, weight_decay, seconds, wait_seconds, batch)


def _gradients(training: Training, batch: Batch, step: Step, is_last: bool) -> LossOutput:
    """Adds this round's gradients; processes exchange them in the last round only."""
    trained = training.trained
    with trained.no_sync() if isinstance(trained, DistributedDataParallel) and not is_last else nullcontext():
        with devices.autocast(training.precision, training.device):
            output: LossOutput = trained(batch, step)
        if _is_check_due(training, step.index) and not math.isfinite(output.loss.item()):
            raise NotFinite(_advice("loss", step.index))
        (output.loss / training.accumulate).backward()
    return output


def _clip(training: Training, index: int) -> float:
    """The gradient's norm, and the gradient cut to `clip` if that is given."""
    parameters = [p for group in training.optimizer.param_groups for p in group["params"] if p.grad is not None]
    norm = nn.utils.get_total_norm([p.grad for p in parameters])
    if training.clip is not None:
        nn.utils.clip_grads_with_norm_(parameters, training.clip, norm)
    if not _is_check_due(training, index):
        return math.nan
    if not math.isfinite(norm.item()):
        raise NotFinite(_advice("gradient", index))
    return norm.item()


def _is_check_due(training: Training, index: int) -> bool:
    """Always before a checkpoint: what is not finite must not be kept."""
    is_saved = (index + 1) % training.checkpoint_every == 0 or index + 1 == training.total
    return is_saved or index % training.check_every == 0


def _advice(what: str, index: int) -> str:
    return (
        f"the {what} of step {index} is not finite; the weights were not changed by it. Try a lower optim.lr, a longer "
        f"optim.warmup, optim.clip=1, or train.precision=float32; then start again or --resume from the last checkpoint"
    )


def _observe(training: Training, view: View, pace: Pace) -> None:
    """Due monitors look, their numbers are written down. Step 0 and the last step are always looked at."""
    index = view.step.index
    values: dict[str, float] = {}
    for every, monitor in training.monitors:
        if index % every == 0 or index == training.total - 1:
            seconds, waiting = pace.over(index % every or every)
            values.update(monitor(replace(view, step_seconds=seconds, wait_seconds=waiting)))
    if values:
        training.record(index + 1, values)
