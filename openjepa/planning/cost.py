"""One real training step on tensors that have a shape and no numbers: what it computes and what it keeps.

The tensors are torch's fake ones, said to be on the CPU. So autocast and the fused attention act as on a GPU (both keep query,
key, value, output and one number a row), masks are drawn for real, and a ViT-G takes seconds and next to no memory.
"""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from openjepa.core.config import Config
from openjepa.core.contracts import Method
from openjepa.core.types import Batch, Step
from openjepa.machine import device
from openjepa.methods import build
from openjepa.nn.block import Block
from openjepa.planning.live_bytes import LiveBytes

MOST_IMAGES = 16  # all but the copies of weights grows with the images, so a few tell about many
MASK_DRAWS = 64  # the size of target blocks changes from step to step; we count a step of about the mean size


@dataclass(frozen=True)
class Work:
    """What one training step takes. FLOP are counted as two for each multiply-add of a matrix product, attention included."""

    parameters: dict[str, int]  # by network
    num_trained: int
    largest_block: int  # parameters
    forward: dict[str, float]  # FLOP per image, by network
    backward: float  # FLOP per image; with activation checkpointing also what is computed again
    activations: float  # bytes per image that live at the peak
    weight_copies: float  # bytes, for any number of images
    mask_sizes: dict[str, float]  # numbers of the step that are no tensors

    @property
    def flops(self) -> float:
        """FLOP per image."""
        return sum(self.forward.values()) + self.backward


def count(config: Config, *, num_images: int, precision: Literal["float32", "bfloat16"]) -> Work:
    """`num_images` are those that one device has at a time."""
    method = build.outline(config).train()
    num_images = min(num_images, MOST_IMAGES)
    with FakeTensorMode(allow_non_fake_inputs=True):
        method.to_empty(device="cpu")
        images = torch.empty(num_images, 3, *config.data.height_width)
        views = tuple(torch.empty(num_images, 3, *view.size) for view in method.augmentations)
    batch = Batch(images, torch.arange(num_images), views)
    step = _typical_step(method, batch, config)
    live = LiveBytes(method)
    with FlopCounterMode(display=False, custom_mapping=ATTENTION) as counter, live:
        with device.autocast(precision, images.device):
            output = method(batch, step)
        forward = _by_network(method, counter)
        output.loss.backward()
    return Work(
        parameters={name: _size(network) for name, network in method.named_children()},
        num_trained=sum(parameter.numel() for parameter in method.parameters() if parameter.requires_grad),
        largest_block=max((_size(block) for block in _blocks(method)), default=0),
        forward={name: flops / num_images for name, flops in forward.items()},
        backward=(counter.get_total_flops() - sum(forward.values())) / num_images,
        activations=(live.peak - live.copies) / num_images,
        weight_copies=live.copies,
        mask_sizes={name: value for name, value in output.metrics.items() if isinstance(value, float)},
    )


def _typical_step(method: Method, batch: Batch, config: Config) -> Step:
    """Of the first steps the one whose number of patches in masks is nearest to their mean."""
    rows = slice(0, len(batch.images))
    few = Step(index=0, total=10**6, seed=config.seed, batch_size=len(batch.images), rows=rows)
    draw = getattr(method, "masks", None)
    index = 0
    if draw is not None:
        # Drawn for a few images, which is fast; block sizes are a step's first draws and the same for any number.
        masks = [draw(replace(few, index=i)) for i in range(MASK_DRAWS)]
        lengths = [drawn.context.numel() + drawn.targets.numel() for drawn in masks]
        index = min(range(MASK_DRAWS), key=lambda i: abs(lengths[i] - statistics.mean(lengths)))
    return replace(few, index=index, batch_size=config.train.batch_size)


def _by_network(method: Method, counter: FlopCounterMode) -> dict[str, float]:
    """FLOP so far, by network; what the method computes outside of its networks is called other."""
    counts: Mapping[str, Mapping[Any, int]] = counter.get_flop_counts()
    found = {name: _flops_below(counts, f"{type(method).__name__}.{name}") for name, _ in method.named_children()}
    other = counter.get_total_flops() - sum(found.values())
    return {**found, "other": other} if other else found


def _flops_below(counts: Mapping[str, Mapping[Any, int]], path: str) -> float:
    """Of a network or, when only parts of it were called (`encoder.layers`), of the uppermost of these parts."""
    inside = [name for name in counts if name == path or name.startswith(f"{path}.")]
    uppermost = [name for name in inside if not any(name.startswith(f"{other}.") for other in inside)]
    return float(sum(sum(counts[name].values()) for name in uppermost))


def _blocks(method: Method) -> Iterator[nn.Module]:
    return (module for module in method.modules() if isinstance(module, Block))


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """[B, heads, N, d] three times -> FLOP of two products, scores and their use."""
    *outer, length, dim = query
    return 2 * torch.Size(outer).numel() * length * key[-2] * (dim + value[-1])


def _attention_backward(_: Any, query: Any, key: Any, value: Any, *__: Any, **___: Any) -> int:
    """Twice as much. That fused kernels compute the scores again is not counted: it is no work of the model."""
    return 2 * _attention(query, key, value)


# torch counts the GPU's fused attention, but not the one that fake tensors on the CPU are sent to
ATTENTION = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}
