"""`recipe: auto`: settings that learn on these images, on this machine, within this budget, each with its reason.

What can be data is data: recipes/tables/auto.yaml. The evidence is in docs/recipes.md.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from openjepa.core import settings
from openjepa.core.config import DEFAULT_METHOD
from openjepa.models import sizes
from openjepa.training import recipe
from openjepa.training.auto import geometry
from openjepa.training.auto.facts import Budget, Images, Machine

MEMORY_SHARE = 0.8  # of a GPU that activations may fill
LEAST_GAIN = 1.15  # of bfloat16 on a CPU; below it float32 is as fast
PATIENCE = {"cpu": 8 * 3600.0, "cuda": 4 * 86400.0}  # seconds that a run may take if its budget is not a time
LEAST_BATCH = {"cpu": 1, "cuda": 256}  # smaller ones leave a GPU idle; not measured here
STYLES = ("short", "long", "paper")  # in this order
ADAMW_RATE = 0.001  # of AdamW, the published optimiser

Reasoned = dict[str, tuple[Any, str]]  # path -> (value, reason)


@dataclass(frozen=True)
class Size:
    """A row of the table."""

    size: str
    patches: int
    patch: int
    batch: int
    lr: float
    images: float
    gflop: float
    mib: float
    style: str


@dataclass(frozen=True)
class Choice:
    settings: dict[str, Any]  # by dotted path
    reasons: dict[str, str]
    size: Size
    images_per_second: float  # expected, from the speed of matrix products
    updates: float  # expected
    epochs: float  # expected


@lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    return settings.read(recipe.FOLDER / recipe.TABLES / "auto.yaml")


def choose(images: Images, machine: Machine, budget: Budget, given: Mapping[str, Any]) -> Choice:
    """`given`: the user's own settings by dotted path. They win, and other choices follow them."""
    size = _size(images, machine, budget, given)
    speed = _images_per_second(machine, size)
    batch = _batch(size, images, machine, budget, given)
    shown = _images_shown(images, budget, speed, batch)
    decided = {
        **_network(images, size, given),
        **_training(machine, size, batch, given),
        **_learning(size, given, shown / images.number),
    }
    decided = {path: entry for path, entry in decided.items() if path not in given}
    return Choice(
        settings={path: value for path, (value, _) in decided.items()},
        reasons={path: reason for path, (_, reason) in decided.items()},
        size=size,
        images_per_second=speed,
        updates=shown / batch,
        epochs=shown / images.number,
    )


def rows(method: str = DEFAULT_METHOD) -> list[Size]:
    """The sizes, with the batch and the cost of a method."""
    plain = [Size(**row) for row in table()["sizes"]]
    if method == DEFAULT_METHOD:
        return plain
    entry = _entry(method)
    return [replace(row, batch=max(row.batch, entry["batch"]), gflop=row.gflop * entry["cost"]) for row in plain]


def _method(given: Mapping[str, Any]) -> str:
    return str(given.get("method.name", DEFAULT_METHOD))


def _entry(method: str) -> dict[str, Any]:
    """What the table has for another method than I-JEPA; a method from outside gets its own defaults."""
    return table()["methods"].get(method, {"batch": 64, "cost": 2.0, "has_views": False, "set": {}})


def _size(images: Images, machine: Machine, budget: Budget, given: Mapping[str, Any]) -> Size:
    """The largest encoder that can learn enough within the budget; or the user's own, trained as the budget allows."""
    best = _largest(rows(_method(given)), images, machine, budget)
    if not geometry.has_own_vit(given):
        return best
    own = _row_of(sizes.parse(str(given["model.name"]))[0], rows(_method(given)))
    style = min(own.style, best.style, key=STYLES.index)
    return replace(own, style=style, batch=min(own.batch, best.batch), lr=min(own.lr, best.lr))


def _largest(candidates: Sequence[Size], images: Images, machine: Machine, budget: Budget) -> Size:
    chosen = candidates[0]
    for row in candidates[1:]:
        speed = _images_per_second(machine, row)
        shown = _images_shown(images, budget, speed, row.batch)
        is_enough = shown >= max(row.images, table()["smallest_batch"] * table()["least_updates"])
        if is_enough and (budget.minutes is not None or shown / speed <= PATIENCE[machine.device]):
            chosen = row
    return chosen


def _row_of(size: sizes.Size, candidates: Sequence[Size]) -> Size:
    """The row of this size, or the next wider or deeper one."""
    volume = size.depth * size.dim**2
    volumes = [sizes.SIZES[row.size].depth * sizes.SIZES[row.size].dim ** 2 for row in candidates]
    return next((row for row, each in zip(candidates, volumes, strict=True) if each >= volume), candidates[-1])


def _images_per_second(machine: Machine, size: Size) -> float:
    return table()["efficiency"] * machine.speed / (1e9 * size.gflop)


def _images_shown(images: Images, budget: Budget, speed: float, batch: int) -> float:
    """Repetitions counted."""
    if budget.minutes is not None:
        return 60 * budget.minutes * speed
    return budget.epochs * images.number if budget.epochs is not None else float(budget.steps or 0) * batch


def _batch(size: Size, images: Images, machine: Machine, budget: Budget, given: Mapping[str, Any]) -> int:
    """The table's, halved until there are enough updates and a batch is a small part of the data."""
    if "train.batch_size" in given:
        return int(given["train.batch_size"])
    batch = max(size.batch, LEAST_BATCH[machine.device])
    shown = math.inf if budget.steps else _images_shown(images, budget, _images_per_second(machine, size), batch)
    while batch > table()["smallest_batch"] and (shown / batch < table()["least_updates"] or batch > images.number / 2):
        batch //= 2
    return max(min(batch, images.number), 1)


def _network(images: Images, size: Size, given: Mapping[str, Any]) -> Reasoned:
    if geometry.has_resnet(given):
        side = max(min(8 * size.patch, min(images.height, images.width) // 8 * 8), 8)
        return {"data.image_size": (side, "a ResNet takes any size; small images are quick")}
    image_size, patch = geometry.choose(images, patches=size.patches, patch=size.patch, given=given)
    height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
    is_enlarged = height > geometry.ENLARGED * images.height or width > geometry.ENLARGED * images.width
    shape = f"{height // patch}×{width // patch} patches of images of about {images.height}×{images.width} px"
    decided: Reasoned = {
        "data.image_size": (image_size, shape + (", which are enlarged" if is_enlarged else "")),
        "model.name": (f"vit-{size.size}/{patch}", "the largest encoder that can learn enough within the budget here"),
    }
    if size.style != "paper":
        value = round(table()["patch_init"] / patch, 3)
        decided["model.patch_init"] = (value, "embedded patches start about as long as their positions")
    aspect = geometry.crop_aspect(image_size)
    if aspect is not None:
        decided["data.crop_aspect"] = (aspect, "crops have about the shape of the images")
    return decided


def _training(machine: Machine, size: Size, batch: int, given: Mapping[str, Any]) -> Reasoned:
    is_faster = machine.bfloat16_gain >= LEAST_GAIN or (machine.device == "cuda" and machine.bfloat16_gain > 0)
    gain = f"linear layers are {machine.bfloat16_gain:.1f} times as fast in bfloat16 here"
    decided: Reasoned = {
        "train.precision": ("bfloat16", gain) if is_faster else ("float32", "bfloat16 is not faster here"),
        "train.batch_size": (batch, "small batches give more updates in the same time"),
    }
    if machine.device == "cuda" and machine.gibibytes:
        count = (
            int(given.get("train.processes", machine.count))
            if given.get("train.processes") != "auto"
            else machine.count
        )
        room = MEMORY_SHARE * machine.gibibytes * 1024 * count / size.mib  # images
        rounds = next(
            rounds for rounds in range(1, batch + 1) if batch % rounds == 0 and batch / rounds <= max(room, 1)
        )
        if rounds > 1:
            decided["train.accumulate"] = (rounds, "more images at a time would not fit the GPU's memory")
    return decided


def _learning(size: Size, given: Mapping[str, Any], epochs: float) -> Reasoned:
    """Optimiser, targets and crops."""
    name = _method(given)
    is_ours = name == DEFAULT_METHOD
    entries = table()["styles"][size.style] if is_ours else _entry(name)["set"]
    decided: Reasoned = {path: (value, reason) for path, (value, reason) in entries.items()}
    if is_ours:
        decided["optim.lr"] = (size.lr, f"of {size.style} runs of this encoder")
        if given.get("optim.name") == "adamw":
            decided["optim.lr"] = (ADAMW_RATE, "the published rate of AdamW")
    if size.style != "paper" and (is_ours or not _entry(name)["has_views"]):
        low = round(interpolate(table()["crops"], epochs), 2)
        decided["data.crop_scale"] = (
            [low, 1.0],
            f"small crops only help in runs of many epochs; this one has {epochs:.2g}",
        )
    if given.get("method.targets") == "pixels" or given.get("method.target_masking") == "input":
        for path in ("method.target_blocks", "method.target_centering"):  # they need tokens of whole images
            decided.pop(path, None)
    if "method.target_blocks" in decided:
        own = given.get("model.name", f"vit-{size.size}/1")
        blocks, reason = decided["method.target_blocks"]
        decided["method.target_blocks"] = (min(blocks, sizes.parse(str(own))[0].depth), reason)
    return decided


def interpolate(points: Iterable[Sequence[float]], x: float) -> float:
    """Linear in log x between (x, y) points, constant outside.

    >>> from openjepa.training.auto.policy import interpolate
    >>> interpolate([[1, 0.6], [100, 0.2]], 10)
    0.4
    """
    points = list(points)
    for (low, first), (high, second) in itertools.pairwise(points):
        if x <= low:
            return first
        if x < high:
            return first + (second - first) * math.log(x / low) / math.log(high / low)
    return points[-1][1]
