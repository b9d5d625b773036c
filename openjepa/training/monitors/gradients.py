"""The gradient norm of each network, and of the first and last block of networks with blocks. After clipping.

It shows a predictor whose gradient dwarfs the encoder's, or a first block without gradient, before the loss does.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch import nn

from openjepa.core.contracts import HasBlocks, View, monitors
from openjepa.core.duration import Duration
from openjepa.core.numbers import DurationField


@monitors.register("gradients")
@dataclass(frozen=True, kw_only=True)
class Gradients:
    every: DurationField = Duration(2, "percent")

    def __call__(self, view: View) -> Iterable[tuple[str, float]]:
        for name, part in _parts(view.method):
            gradients = [p.grad for p in part.parameters() if p.grad is not None]
            if gradients:
                yield f"gradients/{name}", nn.utils.get_total_norm(gradients).item()


def _parts(method: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, network in method.named_children():
        yield name, network
        if isinstance(network, HasBlocks) and len(network.blocks) > 1:
            yield f"{name}_first_block", network.blocks[0]
            yield f"{name}_last_block", network.blocks[-1]
