"""`openjepa plan`: what a pretraining run will cost."""

from typing import TYPE_CHECKING

from openjepa.cli import tables
from openjepa.cli.options import AsJson, Count, Imports, Overrides

if TYPE_CHECKING:
    from openjepa.planning.plan import Plan


def plan(
    config: str | None = None,
    *,
    gpu: str = "a100-80",
    gpus: Count = 1,
    utilisation: float = 0.4,
    price: float | None = None,
    images: Count | None = None,
    image_size: Count | None = None,
    set_: Overrides = None,
    json: AsJson = False,
    imports: Imports = (),
) -> None:
    """Count parameters, FLOP, memory per device, hours and cost of a pretraining run before you start it.

    Example: openjepa plan imagenet/vit_h14 --gpu a100-80 --gpus 16

    Args:
        config: A recipe by name (see openjepa recipes) or a YAML file with what differs from the defaults.
        gpu: One of a100-40, a100-80, h100-80, l4, rtx4090, t4, v100-32.
        gpus: How many of them.
        utilisation: The share of the peak that training reaches: an assumption.
        price: USD per GPU hour; default: an assumption about clouds.
        image_size: Height and width of the images, in pixels.
        images: Number of images, if the data is not on this machine.
        set_: Any setting by its dotted path, such as --set train.accumulate=4; repeatable.
    """
    from openjepa.core import config as configs
    from openjepa.planning import plan as planning
    from openjepa.planning import summary
    from openjepa.training import recipe

    settings = recipe.read_fixed(config) if config is not None else {}
    words = {"imports": list(imports) or None, "data.image_size": image_size}
    options = configs.load(settings, set_ or [], {path: value for path, value in words.items() if value is not None})
    result = planning.plan(options, gpu=gpu, gpus=gpus, utilisation=utilisation, price=price, num_images=images)
    if json:
        tables.as_json_text(summary.as_dict(result))
        return
    _show(result)


def _show(result: "Plan") -> None:
    from openjepa.planning import published, summary

    config, assumed = result.config, result.assumed
    height, width = config.data.height_width
    tables.say(
        f"{config.method['name']} · {config.model.name} · {height}×{width} pixels · {result.steps:,} steps of "
        f"{config.train.batch_size} images · {assumed.num_images:,} images ({assumed.images_from})"
    )
    tables.rows(_networks(result), as_json=False)
    images = f"{result.images_at_a_time} images at a time, {assumed.precision}"
    tables.say(f"GiB on each of {assumed.gpus} × {assumed.gpu.name}, {images}:")
    tables.rows(_memory(result), as_json=False)
    tables.say(summary.verdict(result))
    peak = assumed.gpu.peak(assumed.precision) / 1e12
    tables.say(
        f"{_short(result.hours)} hours, {result.images_per_second:,.0f} images per second, "
        f"at an assumed {100 * assumed.utilisation:g} % of {peak:g} TFLOP/s"
    )
    tables.say(
        f"{result.cost:,.2f} USD for {_short(result.gpu_hours)} GPU hours, at an assumed {assumed.price:.2f} USD per GPU hour"
    )
    tables.say(published.sentence())


def _short(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}"


def _networks(result: "Plan") -> list[dict[str, str]]:
    """Parameters and FLOP: a row for each network, then the backward pass and the total."""
    work = result.work
    rows = [
        {"": name, "parameters": f"{work.parameters.get(name, 0):,}", "GFLOP per image": f"{flops / 1e9:.4g}"}
        for name, flops in work.forward.items()
    ]
    rows.append({"": "backward", "parameters": "", "GFLOP per image": f"{work.backward / 1e9:.4g}"})
    total = f"{sum(work.parameters.values()):,} ({work.num_trained:,} trained)"
    return [*rows, {"": "total", "parameters": total, "GFLOP per image": f"{work.flops / 1e9:.4g}"}]


def _memory(result: "Plan") -> list[dict[str, str]]:
    from openjepa.planning import summary

    ddp, fsdp = summary.in_gib(result.ddp), summary.in_gib(result.fsdp)
    return [{"": name, "DDP": f"{ddp[name]:.2f}", "FSDP": f"{fsdp[name]:.2f}"} for name in ddp]
