"""Every method trains the same model with two gloo processes as with one, on the same global batch."""

import socket
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from openjepa.checks.methods import batch, build
from openjepa.core.contracts import methods
from openjepa.core.types import Batch, Step
from openjepa.machine import distributed

pytestmark = pytest.mark.slow

SIZE, STEPS = 8, 3
ROUNDING = 2e-6
SHARE = 2e-3  # of how far a weight moved: batch norm and low temperatures enlarge rounding; in float64 it is 1e-12


def trained(name: str, rows: slice) -> dict[str, torch.Tensor]:
    """Weights after a few steps of plain gradient descent, which leaves rounding noise as small as it is."""
    method = build(methods[name])
    wrapped = distributed.wrap(method)
    optimizer = torch.optim.SGD([p for p in method.parameters() if p.requires_grad], lr=0.05)
    whole = batch(method, SIZE)
    part = Batch(whole.images[rows], whole.index[rows], tuple(view[rows] for view in whole.views))
    for index in range(STEPS):
        step = Step(index=index, total=30, seed=3, batch_size=SIZE, rows=rows)
        loss = wrapped(part, step).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        method.after_update(step)
    return method.state_dict()


def worker(rank: int, port: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    half = SIZE // 2
    for name in methods.names():
        torch.save(trained(name, slice(rank * half, (rank + 1) * half)), Path(folder) / f"{name}-{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(worker, args=(port, str(folder)), nprocs=2)
    return folder


@pytest.mark.parametrize("name", methods.names())
def test_two_processes_train_the_same_model_as_one(name: str, shared: Path) -> None:
    alone = trained(name, slice(0, SIZE))
    untrained = build(methods[name]).state_dict()
    first, second = (torch.load(shared / f"{name}-{rank}.pt") for rank in range(2))
    moves = []
    for key, value in alone.items():
        assert torch.equal(first[key], second[key]), f"{key} differs between processes"
        moves.append((value - untrained[key]).abs().max().item())
        apart = (value - first[key]).abs().max().item()
        assert apart <= ROUNDING + SHARE * moves[-1], f"{key} moved by {moves[-1]}, with two processes {apart} apart"
    assert max(moves) > 1000 * ROUNDING
