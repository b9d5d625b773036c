"""How many bytes a training step keeps alive at once. It watches shapes only, so it works on tensors without numbers."""

import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

CAST = torch.ops.aten._to_copy.default


class LiveBytes(TorchDispatchMode):
    """While it is entered, `peak` is the most that lived at one moment besides weights, buffers and gradients.

    Of these bytes, `copies` were weights that autocast had turned into bfloat16 and that wait for the backward pass.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.peak = 0
        self.copies = 0
        self._live = {"copies": 0, "activations": 0}
        self._kinds: dict[int, str] = {}  # by the identity of a storage, which views of a tensor share
        for tensor in [*module.parameters(), *module.buffers()]:
            self._kinds[id(tensor.untyped_storage())] = "weights"
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._forget_gradient)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        kind = "copies" if func is CAST and self._kind(args[0]) == "weights" else "activations"
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, FakeTensor):  # others are masks being drawn, which happens on the CPU
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
        """Gradients stay until the optimiser has used them; a plan counts them as a part of their own."""
        assert parameter.grad is not None
        storage = parameter.grad.untyped_storage()
        kind = self._kinds.get(id(storage))
        if kind in self._live:
            self._live[kind] -= storage.nbytes()
            self._kinds[id(storage)] = "gradients"
