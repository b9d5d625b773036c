"""How long the gradient is in each network, and in the first and last block of those that have blocks.

A predictor whose gradient dwarfs the encoder's, or a first block that gets none, is seen here before the loss shows it.
Of the gradients that moved the weights, so after clipping.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch import nn

from openjepa.core.contracts import View, monitors
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
        blocks = getattr(network, "blocks", None)
        if isinstance(blocks, nn.ModuleList) and len(blocks) > 1:
            yield f"{name}_first_block", blocks[0]
            yield f"{name}_last_block", blocks[-1]
