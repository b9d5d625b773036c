"""A plan for people: does it fit and, if not, what to change; and the whole plan as plain values for --json."""

from typing import Any

from openjepa.planning import memory, published
from openjepa.planning.memory import GIB, USABLE, Memory
from openjepa.planning.plan import Plan


def verdict(plan: Plan) -> str:
    """Does it fit and, if not, what to change."""
    gpu = plan.assumed.gpu
    most = memory.most_images(plan.ddp, plan.work, gpu.memory)
    if plan.ddp.fits(gpu.memory):
        return f"fits with DDP: {gpu.name} has memory for about {most} images at a time"
    need, usable = plan.ddp.total / GIB, USABLE * gpu.memory
    fsdp = "; FSDP would fit, but openjepa does not train with it yet" if plan.fsdp.fits(gpu.memory) else ""
    return (
        f"does not fit with DDP: it needs {need:.1f} GiB, {gpu.name} has {usable:.1f} usable GiB; "
        f"try {', or '.join(_remedies(plan, most))}{fsdp}"
    )


def _remedies(plan: Plan, most: int) -> list[str]:
    """A device holds `most` images at a time; more accumulation rounds or more devices reduce the images of each."""
    images, train = plan.images_at_a_time, plan.config.train
    if not most:
        return ["a --gpu with more memory", "a smaller model"]
    parts = next(parts for parts in range(2, images + 1) if images % parts == 0 and images // parts <= most)
    gpus = parts * plan.assumed.gpus
    remedies = [f"--set train.accumulate={parts * train.accumulate}"]
    if memory.ddp(plan.work, num_images=images // parts, gpus=gpus).fits(plan.assumed.gpu.memory):
        remedies.append(f"--gpus {gpus}")  # with a second GPU come DDP's buckets, which also need memory
    if plan.config.model.checkpoint_activations:
        return remedies
    return [*remedies, "--set model.checkpoint_activations=true (less memory, more compute)"]


def as_dict(plan: Plan) -> dict[str, Any]:
    """For --json; the names carry the units."""
    config, assumed, work = plan.config, plan.assumed, plan.work
    return {
        "model": config.model.name,
        "method": config.method["name"],
        "image size": list(config.data.height_width),
        "batch size": config.train.batch_size,
        "images at a time": plan.images_at_a_time,
        "images in the data": assumed.num_images,
        "images from": assumed.images_from,
        "steps": plan.steps,
        "parameters": work.parameters,
        "trained parameters": work.num_trained,
        "masks": work.mask_sizes,
        "GFLOP per image": {
            "forward": {name: flops / 1e9 for name, flops in work.forward.items()},
            "backward": work.backward / 1e9,
            "total": work.flops / 1e9,
        },
        "GPU": assumed.gpu.name,
        "GPUs": assumed.gpus,
        "precision": assumed.precision,
        "peak TFLOP/s": assumed.gpu.peak(assumed.precision) / 1e12,
        "utilisation": assumed.utilisation,
        "USD per GPU hour": assumed.price,
        "GiB per device": {"DDP": in_gib(plan.ddp), "FSDP": in_gib(plan.fsdp), "usable": USABLE * assumed.gpu.memory},
        "fits": {"DDP": plan.ddp.fits(assumed.gpu.memory), "FSDP": plan.fsdp.fits(assumed.gpu.memory)},
        "verdict": verdict(plan),
        "images per second": plan.images_per_second,
        "hours": plan.hours,
        "GPU hours": plan.gpu_hours,
        "USD": plan.cost,
        "utilisation implied by the published claim": published.implied_utilisation(),
    }


def in_gib(used: Memory) -> dict[str, float]:
    """Each part, and the total."""
    parts = {
        "weights": used.weights,
        "gradients": used.gradients,
        "AdamW's moments": used.moments,
        "DDP's buckets, FSDP's whole blocks": used.exchange,
        "bfloat16 copies of weights": used.weight_copies,
        "activations": used.activations,
        "total": used.total,
    }
    return {name: size / GIB for name, size in parts.items()}
