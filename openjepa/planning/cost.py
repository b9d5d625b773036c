"""The cost of one training step: FLOP, parameters, and bytes of memory.

`count` runs a real step on torch's fake tensors, which have shapes and no values, on the CPU. Autocast and fused attention
then behave as on a GPU (both store query, key, value, output and one number per row), masks are real, and a ViT-G takes
seconds and next to no memory. `flops` counts a step on real tensors.
"""

import statistics
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from openjepa.core.config import Config
from openjepa.core.contracts import DrawsMasks, Method
from openjepa.core.types import Batch, Step
from openjepa.machine import device
from openjepa.methods import build
from openjepa.nn.block import Block

MOST_IMAGES = 16  # everything but the copies of weights grows with the images, so a few are enough
MASK_DRAWS = 64  # the size of target blocks changes from step to step; we count a step of about the mean size
CAST = torch.ops.aten._to_copy.default


@dataclass(frozen=True)
class Work:
    """What one training step takes. Each multiply-add of a matrix product, attention included, counts as two FLOP."""

    parameters: dict[str, int]  # by network
    num_trained: int
    largest_block: int  # parameters
    forward: dict[str, float]  # FLOP per image, by network
    backward: float  # FLOP per image; includes what activation checkpointing computes again
    activations: float  # bytes per image alive at the peak
    weight_copies: float  # bytes, for any number of images
    mask_sizes: dict[str, float]  # context and target patches of the step

    @property
    def flops(self) -> float:
        """FLOP per image."""
        return sum(self.forward.values()) + self.backward


def count(config: Config, *, num_images: int, precision: Literal["float32", "bfloat16"]) -> Work:
    """`num_images` is the number on one device at a time."""
    method = build.outline(config).train()
    num_images = min(num_images, MOST_IMAGES)
    with FakeTensorMode(allow_non_fake_inputs=True):
        method.to_empty(device="cpu")
        images = torch.empty(num_images, 3, *config.data.height_width)
        views = tuple(torch.empty(num_images, 3, *view.size) for view in method.augmentations)
    batch = Batch(images, torch.arange(num_images), views)
    step = _typical_step(method, batch, config)
    live = LiveBytes(method)
    with _counter() as counter, live:
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


def flops(method: Method, batch: Batch, step: Step) -> float:
    """FLOP of forward and backward; adds to the gradients of the method."""
    with _counter() as counter:
        method(batch, step).loss.backward()
    return float(counter.get_total_flops())


def _counter() -> FlopCounterMode:
    return FlopCounterMode(display=False, custom_mapping=ATTENTION)


def _typical_step(method: Method, batch: Batch, config: Config) -> Step:
    """The one of the first steps whose masks have a number of patches nearest to the mean."""
    rows = slice(0, len(batch.images))
    few = Step(index=0, total=10**6, seed=config.seed, batch_size=len(batch.images), rows=rows)
    index = 0
    if isinstance(method, DrawsMasks):
        # For a few images, which is fast: a step draws block sizes first, so they are the same for any number of images.
        draws = [method.masks(replace(few, index=i)) for i in range(MASK_DRAWS)]
        lengths = [masks.context.numel() + masks.targets.numel() for masks in draws]
        index = min(range(MASK_DRAWS), key=lambda i: abs(lengths[i] - statistics.mean(lengths)))
    return replace(few, index=index, batch_size=config.train.batch_size)


def _by_network(method: Method, counter: FlopCounterMode) -> dict[str, float]:
    """FLOP so far, by network; what the method computes outside its networks is "other"."""
    counts: Mapping[str, Mapping[Any, int]] = counter.get_flop_counts()
    networks = {name: _flops_below(counts, f"{type(method).__name__}.{name}") for name, _ in method.named_children()}
    other = counter.get_total_flops() - sum(networks.values())
    return {**networks, "other": other} if other else networks


def _flops_below(counts: Mapping[str, Mapping[Any, int]], path: str) -> float:
    """FLOP of a network or, when only parts of it were called (`encoder.layers`), of the uppermost of these parts."""
    inside = [name for name in counts if name == path or name.startswith(f"{path}.")]
    uppermost = [name for name in inside if not any(name.startswith(f"{other}.") for other in inside)]
    return float(sum(sum(counts[name].values()) for name in uppermost))


def _blocks(method: Method) -> Iterator[nn.Module]:
    return (module for module in method.modules() if isinstance(module, Block))


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """[B, heads, N, d] three times -> FLOP of two products: the scores, and the weighted sum of values."""
    *outer, length, dim = query
    return 2 * torch.Size(outer).numel() * length * key[-2] * (dim + value[-1])


def _attention_backward(_: Any, query: Any, key: Any, value: Any, *__: Any, **___: Any) -> int:
    """Twice as much. Fused kernels compute the scores again; we do not count that, it is no work of the model."""
    return 2 * _attention(query, key, value)


# torch does not count the CPU's fused attention, and counts the GPU's scores again in the backward pass
ATTENTION = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    torch.ops.aten._scaled_dot_product_flash_attention_backward: _attention_backward,
    torch.ops.aten._scaled_dot_product_efficient_attention_backward: _attention_backward,
    torch.ops.aten._scaled_dot_product_cudnn_attention_backward: _attention_backward,
}


class LiveBytes(TorchDispatchMode):
    """While entered, `peak` is the largest number of bytes alive at one moment besides weights, buffers and gradients.

    Of these bytes, `copies` are weights that autocast cast to bfloat16 and that the backward pass needs. It looks at shapes
    only, so it works on tensors without values.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.peak = 0
        self.copies = 0
        self._live = {"copies": 0, "activations": 0}
        self._kinds: dict[int, str] = {}  # by the id of a storage, which views of a tensor share
        for tensor in [*module.parameters(), *module.buffers()]:
            self._kinds[id(tensor.untyped_storage())] = "weights"
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._forget_gradient)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        kind = "copies" if func is CAST and self._kind(args[0]) == "weights" else "activations"
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, FakeTensor):  # other tensors are masks, which the CPU draws
                self._add(tensor, kind)
        return result

    def _kind(self, tensor: Tensor) -> str | None:
        return self._kinds.get(id(tensor.untyped_storage()))

    def _add(self, tensor: Tensor, kind: str) -> None:
        storage = tensor.untyped_storage()
        if id(storage) in self._kinds:
            return
        self._kinds[id(storage)] = kind
        self._live[kind] += storage.nbytes()
        weakref.finalize(storage, self._remove, id(storage), storage.nbytes())
        total = sum(self._live.values())
        if total > self.peak:
            self.peak, self.copies = total, self._live["copies"]

    def _remove(self, identity: int, size: int) -> None:
        kind = self._kinds.pop(identity)
        if kind in self._live:
            self._live[kind] -= size

    def _forget_gradient(self, parameter: Tensor) -> None:
        """Gradients live until the optimiser has used them; a plan counts them separately."""
        assert parameter.grad is not None
        storage = parameter.grad.untyped_storage()
        kind = self._kinds.get(id(storage))
        if kind in self._live:
            self._live[kind] -= storage.nbytes()
            self._kinds[id(storage)] = "gradients"
