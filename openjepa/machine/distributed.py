"""One process or many, under `torchrun` or machine/launch.py. Everything here is an identity when there is one process."""

import os
import warnings
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

T = TypeVar("T")
TIMEOUT = timedelta(minutes=30)  # rank 0 may be busy with a report while the others wait


def start(device: torch.device) -> None:
    """Joins the process group that torchrun or machine/launch.py has announced; else does nothing."""
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ and not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=TIMEOUT)


def stop() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def local_processes() -> int:
    """Processes of this run on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def is_main() -> bool:
    return rank() == 0


def wrap(method: nn.Module) -> nn.Module:
    """Gradients are averaged over processes; the methods themselves synchronise their buffers."""
    if not dist.is_initialized():
        return method
    with warnings.catch_warnings():  # torch 2.13 has a new name for it, which older ones do not know
        warnings.filterwarnings("ignore", message="`broadcast_buffers` is deprecated", category=FutureWarning)
        return DistributedDataParallel(method, broadcast_buffers=False)


def mean(value: Tensor) -> Tensor:
    """The mean over processes of a tensor that each of them has; gradients flow back to all of them."""
    return _Mean.apply(value) if dist.is_initialized() else value


def concatenate(value: Tensor) -> Tensor:
    """[B, ...] of each process -> [processes·B, ...] in rank order; gradients flow back to all of them."""
    return _Concatenate.apply(value) if dist.is_initialized() else value


class _Mean(torch.autograd.Function):
    """DistributedDataParallel averages the gradients of all processes' losses; so the gradient of a mean is a mean."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        value = value.clone()
        dist.all_reduce(value)
        return value / dist.get_world_size()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return _Mean.forward(ctx, gradients[0].contiguous())


class _Concatenate(torch.autograd.Function):
    """And the gradient of a row is the sum of the gradients from all processes."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        ctx.num_rows = len(value)
        parts = [torch.empty_like(value) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, value.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone().contiguous()
        dist.all_reduce(total)
        return total[dist.get_rank() * ctx.num_rows :][: ctx.num_rows]


def largest(value: int, device: torch.device) -> int:
    """The largest value of all processes, on every process."""
    if not dist.is_initialized():
        return value
    number = torch.tensor(value, device=device)
    dist.all_reduce(number, op=dist.ReduceOp.MAX)
    return int(number.item())


def gather(value: T) -> list[T]:
    """What each process has, in rank order, on every process."""
    if not dist.is_initialized():
        return [value]
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def from_main(value: T) -> T:
    """What rank 0 has, on every process."""
    if not dist.is_initialized():
        return value
    values = [value]
    dist.broadcast_object_list(values, src=0)
    return values[0]


def barrier() -> None:
    if dist.is_initialized():
        dist.barrier()
