"""Muon makes updates of weight matrices orthogonal; everything else is AdamW's."""

import copy

import pytest
import torch
from torch import Tensor, nn

from openjepa.core.config import OptimConfig
from openjepa.nn.block import Block
from openjepa.training import muon, optim

LR, DECAY = 0.01, 0.1


class Network(nn.Module):
    """One block between two layers that are not inside blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(6, 8)
        self.blocks = nn.ModuleList([Block(8, 2, 24)])  # fc1 is three times as high as wide, like a qkv weight
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks[0](self.embed(x)))


def with_gradients(seed: int = 0) -> Network:
    torch.manual_seed(seed)
    network = Network()
    network(torch.randn(2, 5, 6)).square().sum().backward()
    return network


def orthogonal_by_svd(matrix: Tensor) -> Tensor:
    """The iteration keeps singular vectors and maps each singular value by its polynomial: so says the decomposition."""
    left, values, right = torch.linalg.svd(matrix.double(), full_matrices=False)
    values = values / matrix.double().norm()
    a, b, c = muon.POLYNOMIAL
    for _ in range(muon.ITERATIONS):
        values = a * values + b * values**3 + c * values**5
    return left @ values.diag() @ right


def step(network: nn.Module, name: str = "muon") -> torch.optim.Optimizer:
    optimizer = optim.build(OptimConfig(name=name), network, "float32")
    optim.set_rates(optimizer, LR, DECAY)
    optimizer.step()
    return optimizer


@pytest.mark.parametrize("shape", [(3, 3), (4, 9), (1, 5)])
def test_the_iteration_changes_only_singular_values(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        muon.orthogonalise(matrix[None])[0].double(), orthogonal_by_svd(matrix), rtol=0, atol=1e-5
    )


def test_a_step_of_each_matrix_is_that_of_its_own_decomposition() -> None:
    before, after = with_gradients(), with_gradients()
    step(after)
    for name, number in (("attn.qkv", 3), ("attn.proj", 1), ("mlp.fc1", 1), ("mlp.fc2", 1)):
        old, new = (network.blocks[0].get_submodule(name).weight for network in (before, after))
        for matrix, gradient, updated in zip(old.chunk(number), old.grad.chunk(number), new.chunk(number), strict=True):
            size = 0.2 * max(matrix.shape) ** 0.5
            expected = matrix * (1 - LR * DECAY) - LR * size * orthogonal_by_svd(gradient)
            torch.testing.assert_close(updated.double(), expected.double(), rtol=0, atol=1e-6)


def test_everything_else_is_updated_by_adamw() -> None:
    ours, theirs = with_gradients(), with_gradients()
    step(ours)
    step(theirs, "adamw")
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        is_matrix = name.startswith("blocks") and mine.ndim == 2
        assert torch.equal(mine, other) != is_matrix, name


def test_momentum_looks_ahead_and_forgets() -> None:
    network = with_gradients()
    optimizer = step(network)
    weight = network.blocks[0].mlp.fc2.weight
    first, second = weight.grad.clone(), torch.randn_like(weight)
    before = weight.detach().clone()
    weight.grad = second
    optimizer.step()
    average = 0.95 * 0.05 * first + 0.05 * second
    direction = 0.05 * second + 0.95 * average
    expected = before * (1 - LR * DECAY) - LR * 0.2 * 24**0.5 * orthogonal_by_svd(direction)
    torch.testing.assert_close(weight.double(), expected.double(), rtol=0, atol=1e-6)


def test_a_restored_optimiser_gives_the_same_next_step() -> None:
    network = with_gradients()
    optimizer = step(network)
    other = copy.deepcopy(network)
    restored = optim.build(OptimConfig(name="muon"), other, "float32")
    restored.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for mine, copied in zip(network.parameters(), other.parameters(), strict=True):
        mine.grad = torch.randn_like(mine)
        copied.grad = mine.grad.clone()
    optimizer.step()
    restored.step()
    assert all(torch.equal(mine, copied) for mine, copied in zip(network.parameters(), other.parameters(), strict=True))


def test_a_weight_without_gradient_stays_as_it_is() -> None:
    network = with_gradients()
    weight = network.blocks[0].mlp.fc1.weight
    weight.grad = None
    before = weight.detach().clone()
    step(network)
    assert torch.equal(weight, before)


def test_a_network_without_blocks_is_trained_by_adamw_alone() -> None:
    torch.manual_seed(0)
    network = nn.Linear(3, 2)
    network(torch.randn(4, 3)).sum().backward()
    other = copy.deepcopy(network)
    other.weight.grad, other.bias.grad = network.weight.grad.clone(), network.bias.grad.clone()
    step(network)
    step(other, "adamw")
    assert torch.equal(network.weight, other.weight)
