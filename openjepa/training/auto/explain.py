"""The five lines that `recipe: auto` prints: what it chose and why, and what more time would buy."""

from collections.abc import Mapping
from typing import Any

from openjepa.core.config import DEFAULT_METHOD
from openjepa.training.auto import policy
from openjepa.training.auto.facts import Budget, Images, Machine
from openjepa.training.auto.policy import Choice


def lines(images: Images, machine: Machine, budget: Budget, choice: Choice, given: Mapping[str, Any]) -> list[str]:
    values = {**choice.settings, **given}
    shape, reason = _shape(values["data.image_size"]), choice.reasons.get("data.image_size", "your choice")
    return [
        _situation(images, machine, budget),
        f"  network: {values['model.name']} on {shape} px: {reason}",
        f"  length: about {choice.images_per_second:,.0f} images/s, {_round(choice.updates)} updates of "
        f"{values['train.batch_size']} images, {choice.epochs:.2g} passes over the data",
        _learning(choice, values),
        _more_time(choice, budget, values),
    ]


def _situation(images: Images, machine: Machine, budget: Budget) -> str:
    unit = "CPU core" if machine.device == "cpu" else "GPU"
    where = f"{machine.count} {unit}{'s' if machine.count > 1 else ''}"
    half = f", bfloat16 {machine.bfloat16_gain:.1f} times as fast" if machine.bfloat16_gain else ", no bfloat16"
    return (
        f"recipe auto: {images.number:,} images of about {images.height}×{images.width} px · {where}, "
        f"{machine.flops / 1e9:,.0f} GFLOP/s{half} · {budget}"
    )


def _learning(choice: Choice, values: Mapping[str, Any]) -> str:
    if choice.size.style == "paper":
        return "  learning: the paper's settings; the budget is long enough for them"
    rate = f" at rate {values['optim.lr']:g}" if "optim.lr" in values else ""
    return (
        f"  learning: {values.get('optim.name', 'adamw')}{rate} and other settings for short runs; the paper's need 300 epochs. "
        "config.yaml in the run folder has every value and its reason"
    )


def _more_time(choice: Choice, budget: Budget, values: Mapping[str, Any]) -> str:
    """What we measured, and from when on a larger encoder is chosen."""
    gains = policy.table()["more_time"]
    rows = policy.rows(str(values.get("method.name", DEFAULT_METHOD)))
    larger = next((row for row in rows if row.gflop > choice.size.gflop), None)
    if larger is None or budget.minutes is None or "model.name" not in choice.settings:
        return f"  more time: {gains}"
    speed = choice.images_per_second * choice.size.gflop / larger.gflop
    name = f"vit-{larger.size} with {larger.patches} patches"
    return f"  more time: {gains}; from about {_time(larger.images / speed / 60)} on, a larger encoder ({name})"


def _time(minutes: float) -> str:
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:,.0f} hours"


def _round(number: float) -> str:
    """Two digits: it is an estimate."""
    return f"{float(f'{number:.2g}'):,.0f}"


def _shape(side: Any) -> str:
    return f"{side}×{side}" if isinstance(side, int) else "×".join(str(length) for length in side)
