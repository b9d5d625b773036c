"""The verb that looks ahead: `openjepa plan`."""

from pathlib import Path
from typing import TYPE_CHECKING

from openjepa.cli import tables
from openjepa.cli.options import AsJson, Count, Overrides

if TYPE_CHECKING:
    from openjepa.planning.plan import Plan


def plan(
    config: Path | None = None,
    *,
    gpu: str = "a100-80",
    gpus: Count = 1,
    utilisation: float = 0.4,
    price: float | None = None,
    images: Count | None = None,
    set_: Overrides = None,
    json: AsJson = False,
) -> None:
    """Parameters, FLOP, memory per device, hours and cost of a pretraining run, before it is started.

    Example: openjepa plan configs/imagenet/vit_h14.yaml --gpu a100-80 --gpus 16

    Args:
        config: A YAML file; only what differs from the defaults.
        gpu: One of a100-40, a100-80, h100-80, l4, rtx4090, t4, v100-32.
        gpus: How many of them.
        utilisation: The share of the peak that training reaches: an assumption.
        price: USD per GPU hour; default: an assumption about clouds.
        images: How many pictures there are, if the data is not on this machine.
        set_: Any setting by its dotted path, such as --set train.accumulate=4; may be given many times.
    """
    from openjepa.core import config as configs
    from openjepa.core import settings
    from openjepa.planning import plan as planning
    from openjepa.planning import summary

    given = configs.load(settings.read(config) if config is not None else {}, set_ or [])
    made = planning.plan(given, gpu=gpu, gpus=gpus, utilisation=utilisation, price=price, num_images=images)
    if json:
        tables.as_json_text(summary.as_dict(made))
        return
    _show(made)


def _show(made: "Plan") -> None:
    from openjepa.planning import published, summary

    config, assumed = made.config, made.assumed
    height, width = config.data.height_width
    tables.say(
        f"{config.method['name']} · {config.model.name} · {height}×{width} pixels · {made.steps:,} steps of "
        f"{config.train.batch_size} pictures · {assumed.num_images:,} pictures ({assumed.images_from})"
    )
    tables.rows(_networks(made), as_json=False)
    images = f"{made.images_at_a_time} images at a time, {assumed.precision}"
    tables.say(f"GiB on each of {assumed.gpus} × {assumed.gpu.name}, {images}:")
    tables.rows(_memory(made), as_json=False)
    tables.say(summary.verdict(made))
    peak = assumed.gpu.peak(assumed.precision) / 1e12
    tables.say(
        f"{_short(made.hours)} hours, {made.images_per_second:,.0f} images per second, "
        f"at an assumed {100 * assumed.utilisation:g} % of {peak:g} TFLOP/s"
    )
    tables.say(
        f"{made.cost:,.2f} USD for {_short(made.gpu_hours)} GPU hours, at an assumed {assumed.price:.2f} USD per GPU hour"
    )
    tables.say(published.sentence())


def _short(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}"


def _networks(made: "Plan") -> list[dict[str, str]]:
    """Parameters and FLOP, a row for each network, then backward and all."""
    work = made.work
    rows = [
        {"": name, "parameters": f"{work.parameters.get(name, 0):,}", "GFLOP per image": f"{flops / 1e9:.4g}"}
        for name, flops in work.forward.items()
    ]
    rows.append({"": "backward", "parameters": "", "GFLOP per image": f"{work.backward / 1e9:.4g}"})
    total = f"{sum(work.parameters.values()):,} ({work.num_trained:,} trained)"
    return [*rows, {"": "in all", "parameters": total, "GFLOP per image": f"{work.flops / 1e9:.4g}"}]


def _memory(made: "Plan") -> list[dict[str, str]]:
    from openjepa.planning import summary

    ddp, fsdp = summary.in_gib(made.ddp), summary.in_gib(made.fsdp)
    return [{"": name, "DDP": f"{ddp[name]:.2f}", "FSDP": f"{fsdp[name]:.2f}"} for name in ddp]
