"""Source `clevr`: CLEVR v1.0 (Johnson et al. 2017) with the two labels that VTAB (Zhai et al. 2019) made for it:

`count`, how many objects there are, and `distance`, how near the nearest one is.
"""

import reprlib
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openjepa.core.contracts import SourceRequest, sources
from openjepa.core.errors import BadInput
from openjepa.data.sources import published
from openjepa.data.sources.folder import ImageFolder

COUNTS = range(3, 11)  # objects in an image
# Class k is edge k < distance <= edge k + 1. VTAB chose them for classes of similar size; VISSL has the same.
DISTANCE_EDGES = (0.0, 8.0, 8.5, 9.0, 9.5, 10.0, 100.0)
CLASS_NAMES = {
    "count": tuple(str(count) for count in COUNTS),
    "distance": ("up to 8.0", "8.0 to 8.5", "8.5 to 9.0", "9.0 to 9.5", "9.5 to 10.0", "over 10.0"),
}
KEYS = frozenset({"scenes", "image_filename", "objects", "pixel_coords"})
REMEDY = "unpack all of CLEVR_v1.0.zip there"


@dataclass(frozen=True)
class Scene:
    image: str
    depths: tuple[float, ...]  # of each object, as seen from the camera


@sources.register("clevr")
def open_clevr(request: SourceRequest) -> ImageFolder:
    part = published.part("clevr", request.split)
    root = published.folder("clevr", request.path)
    file = published.find(f"scenes/CLEVR_{part}_scenes.json", [root, root / "CLEVR_v1.0"], remedy=REMEDY)
    scenes = _read(file)
    paths = tuple(f"images/{part}/{scene.image}" for scene in scenes)
    published.require_images(file.parents[1], paths, listed_in=file, remedy=REMEDY)
    labels = {
        "count": tuple(COUNTS.index(len(scene.depths)) for scene in scenes),
        "distance": tuple(distance_class(scene.depths) for scene in scenes),
    }
    return ImageFolder(file.parents[1], paths, labels, CLASS_NAMES)


def distance_class(depths: Sequence[float]) -> int:
    """The class of the nearest object; depths are between the first and the last edge."""
    return bisect_left(DISTANCE_EDGES, min(depths)) - 1


def _read(file: Path) -> list[Scene]:
    content = published.read_json(file, keep=KEYS)
    return [_scene(entry, where) for where, entry in published.entries(content, "scenes", file)]


def _scene(entry: Any, where: str) -> Scene:
    image = published.field(entry, "image_filename", str, where)
    objects = published.field(entry, "objects", list, where)
    if len(objects) not in COUNTS:
        raise BadInput(
            f"{where} ({image}) has {len(objects)} objects, expected {COUNTS[0]} to {COUNTS[-1]}; "
            "this is not CLEVR v1.0, download it again"
        )
    depths = [_depth(thing, f"{where} ({image}) objects[{number}]") for number, thing in enumerate(objects)]
    return Scene(image, tuple(depths))


def _depth(thing: Any, where: str) -> float:
    coordinates = published.field(thing, "pixel_coords", list, where)  # x, y, depth
    nearest, farthest = DISTANCE_EDGES[0], DISTANCE_EDGES[-1]
    depth = coordinates[2] if len(coordinates) == 3 else None
    if not isinstance(depth, int | float) or not nearest < depth <= farthest:  # not …: NaN is not in between either
        raise BadInput(
            f"{where} has pixel_coords {reprlib.repr(coordinates)}, expected x, y and a depth over {nearest:g} and up to "
            f"{farthest:g}; download the file again"
        )
    return depth
