"""Which object does each pixel see, and how far away? Ray casting for all objects of many scenes at once.

A ray is carried into the object's own frame and cut there with the unit shape; a depth buffer keeps the nearest object.
The layout counts visible pixels with it, the renderer shades them.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from openjepa.data.sources.scenes.raster import Raster, Spans, spans
from openjepa.data.sources.scenes.world import BOUND, CUBE, HALF_HEIGHT, QUADRIC, Bools, Floats, Ints, Objects, Words

# (objects [R], their spans, x [F], y [R]) -> depths [F] between which the ray is inside
Cut = Callable[[Objects, Spans, Floats, Floats], tuple[Floats, Floats]]


@dataclass(frozen=True)
class Hits:
    """The V pixels that see an object; every pixel at most once."""

    pixel: Ints  # [V] (scene * height + row) * width + column
    item: Ints  # [V] which object
    x: Floats  # [V] where on the screen
    y: Floats  # [V]
    depth: Floats  # [V] along the viewing axis

    def rows(self, rows: Bools) -> "Hits":
        return Hits(*(getattr(self, field.name)[rows] for field in fields(self)))


def first_hits(things: Objects, raster: Raster, scratch: Words) -> Hits:
    """What every pixel sees first. `scratch` has an element for each pixel of all scenes and may hold anything."""
    is_cube = things.shape == CUBE
    parts = [
        _hits(things, np.flatnonzero(~is_cube), _cut_round, raster),
        _hits(things, np.flatnonzero(is_cube), _cut_cube, raster),
    ]
    hits = Hits(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Hits)))
    # Positive floats sort like their bits; a hit's own number breaks ties, in the same order alone and in a batch.
    key = hits.depth.view(np.uint32).astype(np.uint64) << np.uint64(32)
    key |= np.arange(len(key), dtype=np.uint64)
    scratch[hits.pixel] = np.uint64(2**64 - 1)
    np.minimum.at(scratch, hits.pixel, key)
    return hits.rows(scratch[hits.pixel] == key)


def _hits(things: Objects, chosen: Ints, cut: Cut, raster: Raster) -> Hits:
    """Hits of some objects, whether or not something hides them."""
    some = things.rows(chosen)
    boxes = _boxes(some, raster)
    x, y = raster.x(boxes.column), raster.y(boxes.row)  # [F], [R]
    enter, leave = cut(some.rows(boxes.item), boxes, x, y)
    is_hit = enter < leave  # [F]
    line = (some.scene[boxes.item] * raster.height + boxes.row) * raster.width  # [R]
    pixel = boxes.spread(line)[is_hit] + boxes.column[is_hit]
    return Hits(pixel, boxes.spread(chosen[boxes.item])[is_hit], x[is_hit], boxes.spread(y)[is_hit], enter[is_hit])


def _boxes(some: Objects, raster: Raster) -> Spans:
    """The box on the screen around each object's bounding sphere."""
    (right, up, depth), bound = some.centre.T, some.radius * BOUND[some.shape]
    return spans(raster.columns(*sphere_extent(right, depth, bound)), raster.lines(*sphere_extent(up, depth, bound)))


def _cut_round(some: Objects, boxes: Spans, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    away, above = _direction(some, y)
    a, b, c = QUADRIC[some.shape].T  # [R]
    eye_x, eye_y, eye_z = some.eye.T
    # Along the ray the quadric is A t² + 2 B t + C; A and B are those of the span's middle plus a term in x.
    A = boxes.spread(away * away + a * above * above) + boxes.spread(1 / (some.radius * some.radius)) * (x * x)
    B = boxes.spread(eye_y * away + (a * eye_z + b) * above) + boxes.spread(eye_x / some.radius) * x
    C = boxes.spread(eye_x * eye_x + eye_y * eye_y + (a * eye_z + 2 * b) * eye_z + c)
    root = B * B - A * C
    missed = root < 0
    root = np.sqrt(np.maximum(root, 0))
    A = 1 / A  # positive: no ray falls as steeply as the side of a cone
    enter_slab, leave_slab = _slab(eye_z, above, HALF_HEIGHT[some.shape])
    enter = np.maximum((-B - root) * A, boxes.spread(enter_slab))
    leave = np.minimum((root - B) * A, boxes.spread(leave_slab))
    leave[missed] = 0
    return enter, leave


def _cut_cube(some: Objects, boxes: Spans, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    away, above = _direction(some, y)
    cosine, sine = (some.turn / some.radius[:, None]).T  # [R]
    half = HALF_HEIGHT[CUBE]
    direction_x = boxes.spread(some.turn[:, 1] * away) + boxes.spread(cosine) * x
    direction_y = boxes.spread(some.turn[:, 0] * away) - boxes.spread(sine) * x
    enter_x, leave_x = _slab(boxes.spread(some.eye[:, 0]), direction_x, half)
    enter_y, leave_y = _slab(boxes.spread(some.eye[:, 1]), direction_y, half)
    enter_z, leave_z = (boxes.spread(edge) for edge in _slab(some.eye[:, 2], above, half))
    enter = np.maximum(np.maximum(enter_x, enter_y), enter_z)
    return enter, np.minimum(np.minimum(leave_x, leave_y), leave_z)


def _direction(some: Objects, y: Floats) -> tuple[Floats, Floats]:
    """The ray through (0, y) on the screen, going away and up, in units of the object's radius."""
    cosine, sine = some.tilt.T
    return (cosine + y * sine) / some.radius, (y * cosine - sine) / some.radius


def _slab(eye: Floats, direction: Floats, half: Floats | np.float32) -> tuple[Floats, Floats]:
    """Depths between which a ray is inside -half … half along one axis."""
    # A ray exactly along the slab would divide by zero; a hair off it is as good.
    inverse = 1 / np.where(direction == 0, np.float32(1e-20), direction)
    middle, reach = -eye * inverse, half * np.abs(inverse)
    return middle - reach, middle + reach


def sphere_extent(side: Floats, depth: Floats, radius: Floats) -> tuple[Floats, Floats]:
    """Where the image of a sphere begins and ends along one screen axis: the two tangents from the eye."""
    reach = radius * np.sqrt(side * side + depth * depth - radius * radius)
    scale = 1 / (depth * depth - radius * radius)
    return (side * depth - reach) * scale, (side * depth + reach) * scale
