"""How long each strategy takes to draw masks, on one thread."""

import statistics
from typing import Any

import torch

from openjepa.benchmarks.timer import seconds_of
from openjepa.core.contracts import mask_strategies
from openjepa.core.errors import BadInput
from openjepa.core.types import Grid

WARMUP = 3


def masks(*, batch_size: int, side: int, repeats: int = 30) -> list[dict[str, Any]]:
    """A row for each strategy: median and best milliseconds of one draw for a whole batch."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_mask_row(name, batch_size, Grid(side, side), repeats) for name in mask_strategies.names()]
    finally:
        torch.set_num_threads(before)


def _mask_row(name: str, batch_size: int, grid: Grid, repeats: int) -> dict[str, Any]:
    row: dict[str, Any] = {"masks": name, "grid": str(grid), "images": batch_size}
    generator = torch.Generator().manual_seed(0)
    try:
        strategy = mask_strategies[name]()
        seconds = [seconds_of(lambda: strategy(batch_size, grid, generator)) for _ in range(repeats + WARMUP)][WARMUP:]
    except BadInput as error:
        return {**row, "note": str(error)}
    return {**row, "median ms": round(1e3 * statistics.median(seconds), 2), "best ms": round(1e3 * min(seconds), 2)}
