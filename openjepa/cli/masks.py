"""`openjepa masks`: what a mask strategy does on a grid, in numbers and as a figure."""

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.table import Table

from openjepa.cli import tables
from openjepa.cli.options import AsJson, Count, Overrides

if TYPE_CHECKING:
    from openjepa.core.contracts import MaskStrategy
    from openjepa.masks.statistics import Coverage

NUM_SHOWN = 6


def masks(
    *,
    name: str = "multiblock",
    image_size: Count = 224,
    patch_size: Count = 16,
    batch_size: Count = 128,
    images: Count = 4096,
    seed: int = 0,
    figure: Annotated[Path, Parameter(name=("--figure", "--picture"))] = Path("masks.png"),
    draw: bool = True,
    set_: Overrides = None,
    json: AsJson = False,
) -> None:
    """Draw example masks and count what they cover, before you train with them.

    Example: openjepa masks --name reference --batch-size 128

    Args:
        name: multiblock, reference, random, block, blockwise, rasterized, or your own (see --import).
        image_size: In pixels.
        patch_size: In pixels.
        batch_size: Matters for reference, whose context depends on it.
        images: How many images to count over.
        seed: For the random masks.
        figure: The file for examples and coverage.
        draw: --no-draw writes no figure.
        set_: An option of the strategy, such as --set num_targets=2; repeatable.
    """
    from openjepa.core import schema, seeding, settings
    from openjepa.core.contracts import mask_strategies
    from openjepa.masks import statistics
    from openjepa.nn.patches import grid_of

    options = dict(settings.parse_override(override) for override in set_ or [])
    strategy = schema.build(mask_strategies, {"name": name, **options})
    coverage = statistics.coverage(
        strategy,
        grid_of(image_size, image_size, patch_size),
        batch_size=batch_size,
        num_batches=max(images // batch_size, 1),
        generator=seeding.generator(seed, "masks"),
    )
    if draw:
        _draw(strategy, coverage, image_size=image_size, batch_size=batch_size, seed=seed, path=figure)
    _show(coverage, as_json=json)
    if draw and not json:
        tables.say(f"written: {figure}")


def _draw(
    strategy: "MaskStrategy", coverage: "Coverage", *, image_size: int, batch_size: int, seed: int, path: Path
) -> None:
    """Examples over rendered scenes, and the coverage, as one PNG."""
    from openjepa.core import seeding
    from openjepa.core.types import Grid
    from openjepa.data.sources.scenes.source import Scenes
    from openjepa.report.figures import masks as figures

    grid = Grid(*coverage.grid)
    examples = strategy(max(batch_size, NUM_SHOWN), grid, seeding.generator(seed, "masks")).rows(slice(0, NUM_SHOWN))
    images, _ = Scenes(NUM_SHOWN, (image_size, image_size)).render(range(NUM_SHOWN))
    path.parent.mkdir(parents=True, exist_ok=True)
    figures.inspector(images, examples, grid, coverage).savefig(path, dpi=110)


def _show(coverage: "Coverage", *, as_json: bool) -> None:
    if as_json:
        tables.as_json_text(coverage.as_dict())
        return
    tables.say(f"grid {coverage.grid[0]}×{coverage.grid[1]}, {coverage.num_images} images")
    tables.say(f"context share   {coverage.context_share:.3f} of the patches")
    tables.say(f"target share    {coverage.target_share:.3f} (all blocks of an image together)")
    tables.say(f"block size      {coverage.block_patches:.1f} patches on average")
    tables.say(f"overlap         {100 * coverage.overlap:.1f} % of the images have a target patch in their context")
    tables.say("how often a patch in this row or column is used, in %:")
    lists = (coverage.context_rows, coverage.context_columns, coverage.target_rows, coverage.target_columns)
    table = Table("number", "context, row", "context, column", "target, row", "target, column")
    for number, values in enumerate(zip_longest(*lists)):
        table.add_row(str(number), *("" if value is None else f"{100 * value:.1f}" for value in values))
    tables.out.print(table)
