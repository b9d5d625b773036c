"""A plan in words: whether it fits and what would help, and the whole of it as plain values."""

from typing import Any

from openjepa.planning import memory as plan_memory
from openjepa.planning import published
from openjepa.planning.memory import GIB, USABLE, Memory
from openjepa.planning.plan import Plan


def verdict(plan: Plan) -> str:
    """Fits or not and, if not, what to change."""
    gpu = plan.assumed.gpu
    most = plan_memory.most_images(plan.ddp, plan.work, gpu.memory)
    if plan.ddp.fits(gpu.memory):
        return f"fits with DDP: {gpu.name} has room for about {most} images at a time"
    need, usable = plan.ddp.total / GIB, USABLE * gpu.memory
    fsdp = "; FSDP would fit, but openjepa does not train with it yet" if plan.fsdp.fits(gpu.memory) else ""
    return (
        f"does not fit with DDP: needs {need:.1f} GiB, {gpu.name} has {usable:.1f} that can be used; "
        f"try {', or '.join(_remedies(plan, most))}{fsdp}"
    )


def _remedies(plan: Plan, most: int) -> list[str]:
    """A device has room for `most` images at a time; more accumulation rounds or more devices give each of them fewer."""
    images, train = plan.images_at_a_time, plan.config.train
    if not most:
        return ["a --gpu with more memory", "a smaller model"]
    parts = next(parts for parts in range(2, images + 1) if images % parts == 0 and images // parts <= most)
    gpus = parts * plan.assumed.gpus
    remedies = [f"--set train.accumulate={parts * train.accumulate}"]
    if plan_memory.ddp(plan.work, num_images=images // parts, gpus=gpus).fits(plan.assumed.gpu.memory):
        remedies.append(f"--gpus {gpus}")  # the first second GPU brings DDP's buckets, which need memory, too
    if plan.config.model.checkpoint_activations:
        return remedies
    return [*remedies, "--set model.checkpoint_activations=true (keeps less, computes more)"]


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


def in_gib(memory: Memory) -> dict[str, float]:
    """Part by part and in all."""
    parts = {
        "weights": memory.weights,
        "gradients": memory.gradients,
        "AdamW's moments": memory.moments,
        "DDP's buckets, FSDP's whole blocks": memory.exchange,
        "bfloat16 copies of weights": memory.weight_copies,
        "activations": memory.activations,
        "total": memory.total,
    }
    return {name: size / GIB for name, size in parts.items()}
