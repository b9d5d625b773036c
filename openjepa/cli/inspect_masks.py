"""The mask inspector: what a strategy does on a grid, in numbers and as a picture."""

from dataclasses import dataclass
from pathlib import Path

from openjepa.core import schema, seeding, settings
from openjepa.core.contracts import MaskStrategy, mask_strategies
from openjepa.core.types import Grid
from openjepa.data.sources.scenes.source import Scenes
from openjepa.masks.statistics import Coverage, coverage
from openjepa.nn.patches import grid_of
from openjepa.report.figures import masks

NUM_SHOWN = 6


@dataclass(frozen=True)
class Inspection:
    strategy: MaskStrategy
    grid: Grid
    image_size: int
    batch_size: int
    seed: int
    coverage: Coverage


def inspect(
    name: str, words: list[str], *, image_size: int, patch_size: int, batch_size: int, num_images: int, seed: int
) -> Inspection:
    """`words` are options of the strategy, such as num_targets=2."""
    strategy = schema.build(mask_strategies, {"name": name, **_options(words)})
    grid = grid_of(image_size, image_size, patch_size)
    found = coverage(
        strategy,
        grid,
        batch_size=batch_size,
        num_batches=max(num_images // batch_size, 1),
        generator=seeding.generator(seed, "masks"),
    )
    return Inspection(strategy, grid, image_size, batch_size, seed, found)


def draw(found: Inspection, path: Path) -> None:
    """Examples over embedded pictures, and the coverage, as one PNG."""
    generator = seeding.generator(found.seed, "masks")
    drawn = found.strategy(max(found.batch_size, NUM_SHOWN), found.grid, generator).rows(slice(0, NUM_SHOWN))
    images, _ = Scenes(NUM_SHOWN, (found.image_size, found.image_size)).render(range(NUM_SHOWN))
    figure = masks.inspector(images, drawn, found.grid, found.coverage)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _options(words: list[str]) -> dict[str, object]:
    return dict(settings.parse_override(word) for word in words)
