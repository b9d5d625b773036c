"""The gradient norm of each network, and of the first and last block of networks with blocks. After clipping.

It shows a predictor whose gradient dwarfs the encoder's, or a first block without gradient, before the loss does.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch import nn

from openjepa.core.contracts import View, monitors
from openjepa.core.duration import Duration
from openjepa.core.numbers import DurationField
from openjepa.nn.block import blocks_of


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
        blocks = blocks_of(network)
        if len(blocks) > 1:
            yield f"{name}_first_block", blocks[0]
            yield f"{name}_last_block", blocks[-1]
