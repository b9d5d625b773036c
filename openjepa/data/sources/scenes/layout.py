"""Where the objects of scene number i of `scenes` are: a pure function of (seed, i), drawn for many scenes at once.

Objects and camera are drawn once; only sizes and positions are drawn again until every object is in the frame, free of the
others and visible. So the number of objects stays uniform, whether they are easy to place or not.
"""

from dataclasses import dataclass, replace

import numpy as np

from openjepa.data.sources.scenes.random import draw
from openjepa.data.sources.scenes.raster import VIEW, Raster
from openjepa.data.sources.scenes.rays import first_hits, sphere_extent
from openjepa.data.sources.scenes.world import (
    COLOURS,
    MATERIALS,
    MAX_OBJECTS,
    SHAPES,
    Bools,
    Floats,
    Ints,
    Words,
    World,
    join,
    objects,
    project,
)

MIN_OBJECTS = 3  # 3 to 10, as in CLEVR
RADII = np.array([0.44, 0.6, 0.78], np.float32)
GAP = 0.1  # between the ground discs of two objects; CLEVR has 0.25, but its objects fill less of the image
FIELD = 3.1  # objects are within a disc of this radius
NUM_TRIES = 24  # positions tried for each object before the whole scene is drawn again
CHUNK = 256  # scenes at a time, to stay in the cache

JUDGE = Raster(48, 48)  # visibility is judged at one size, so that labels do not depend on the image's
# CLEVR's generator requires 200 pixels of 320 × 240, 0.26 %; our images are small and need 0.43 %: 18 of 64 × 64.
MIN_VISIBLE = 10


@dataclass(frozen=True)
class Layout:
    world: World
    visible: Ints  # [S, 10] pixels of 48 × 48 that see each object


def layout(seed: int, numbers: Words) -> Layout:
    """Scenes [S] by number."""
    parts = [_layout(seed, numbers[begin : begin + CHUNK]) for begin in range(0, max(len(numbers), 1), CHUNK)]
    return Layout(join([part.world for part in parts]), np.concatenate([part.visible for part in parts]))


def _layout(seed: int, numbers: Words) -> Layout:
    world = _furnish(seed, numbers)
    visible = np.zeros(world.shape.shape, np.int64)
    pending, attempt = np.arange(len(numbers)), 0
    while len(pending):
        assert attempt < 1000, "some scene cannot be laid out; 15 attempts were the most for 100,000 scenes"
        # rows by index are copies, which _place may write into
        some, is_placed = _place(world.rows(pending), seed, numbers[pending], attempt)
        seen = visible_pixels(some)
        is_good = is_placed & ((seen >= MIN_VISIBLE) | ~some.is_used()).all(axis=1)
        done = pending[is_good]
        world.radius[done], world.position[done], visible[done] = (
            some.radius[is_good],
            some.position[is_good],
            seen[is_good],
        )
        pending, attempt = pending[~is_good], attempt + 1
    return Layout(world, visible)


def _furnish(seed: int, numbers: Words) -> World:
    """Everything but sizes and positions, which stay zero."""
    num_objects = _choice(draw(seed, "number", numbers, 1)[:, 0], MAX_OBJECTS - MIN_OBJECTS + 1) + MIN_OBJECTS  # [S]
    things = draw(seed, "objects", numbers, 4 * MAX_OBJECTS).reshape(-1, 4, MAX_OBJECTS)
    eye, tilt = _camera(draw(seed, "camera", numbers, 4))
    return World(
        num_objects=num_objects,
        shape=_choice(things[:, 0], len(SHAPES)),
        colour=_choice(things[:, 1], len(COLOURS)),
        is_metal=_choice(things[:, 2], len(MATERIALS)),
        radius=np.zeros(things.shape[::2], np.float32),
        position=np.zeros((*things.shape[::2], 2), np.float32),
        turn=_direction(things[:, 3] * 0.4142),  # 0 to 90°
        eye=eye,
        tilt=tilt,
        light=_light(draw(seed, "light", numbers, 2)),
        mood=draw(seed, "mood", numbers, 6),
    )


def _choice(uniform: Floats, num: int) -> Ints:
    return (uniform * num).astype(np.int64)


def _direction(half_tangent: Floats) -> Floats:
    """[...] -> [..., 2]: cosine and sine of the angle whose half has this tangent; exact where cos and sin are not."""
    square = half_tangent * half_tangent
    return np.stack([1 - square, 2 * half_tangent], axis=-1) / (1 + square)[..., None]


def _camera(uniform: Floats) -> tuple[Floats, Floats]:
    """[S, 4] -> eyes [S, 3] and tilts [S, 2]: 9 to 11 units from a point near the origin, looking 28° to 44° down."""
    tilt = _direction(0.25 + 0.154 * uniform[:, 0])
    distance = 9 + 2 * uniform[:, 1]
    aim = (uniform[:, 2:] - 0.5) * 0.6
    eye = (aim[:, 0], aim[:, 1] - distance * tilt[:, 0], 0.3 + distance * tilt[:, 1])
    return np.stack(eye, axis=1), tilt


def _light(uniform: Floats) -> Floats:
    """[S, 2] -> [S, 3]: 42° to 62° high, from the left or from the right, more or less from behind the camera."""
    high = _direction(0.384 + 0.217 * uniform[:, 0])
    side = 2 * uniform[:, 1] - 1
    side = _direction(side * 0.65 + np.copysign(np.float32(0.2), side))  # 23° to 81° to either side
    return np.stack([high[:, 0] * side[:, 1], -high[:, 0] * side[:, 0], high[:, 1]], axis=1)


def _place(world: World, seed: int, numbers: Words, attempt: int) -> tuple[World, Bools]:
    """The same scenes with sizes and positions, and did all objects fit? [S]"""
    draws = draw(seed, "places", numbers, MAX_OBJECTS * (1 + 2 * NUM_TRIES), attempt)
    radius = RADII[_choice(draws[:, :MAX_OBJECTS], len(RADII))]
    # Large ones first: they are the hardest to place. Unused slots come last.
    world = replace(world, radius=-np.sort(-np.where(world.is_used(), radius, 0), axis=1))
    spots = (draws[:, MAX_OBJECTS:].reshape(-1, MAX_OBJECTS, NUM_TRIES, 2) * 2 - 1) * FIELD
    is_free = _is_in_field(spots) & _is_in_frame(world, spots)  # [S, 10, C]
    for slot in range(MAX_OBJECTS):
        is_free[:, slot] &= _is_clear(world, spots[:, slot], slot)
        chosen = is_free[:, slot].argmax(axis=1)  # the first that is free
        world.position[:, slot] = spots[np.arange(len(spots)), slot, chosen]
    return world, np.all(is_free.any(axis=2) | ~world.is_used(), axis=1)


def _is_clear(world: World, spots: Floats, slot: int) -> Bools:
    """Would an object at these spots keep its distance from those in earlier slots? [S, C, 2] -> [S, C]"""
    away = spots[:, :, None] - world.position[:, None, :slot]  # [S, C, slot, 2]
    apart = world.radius[:, slot, None] + world.radius[:, :slot] + GAP  # [S, slot]
    return (away[..., 0] ** 2 + away[..., 1] ** 2 > (apart * apart)[:, None]).all(axis=2)


def _is_in_field(spots: Floats) -> Bools:
    # A disc, and objects turned at random: from whichever side the camera looks, the world is the same. So it always
    # looks along y, and its azimuth needs no number of its own.
    return spots[..., 0] ** 2 + spots[..., 1] ** 2 < FIELD**2


def _is_in_frame(world: World, spots: Floats) -> Bools:
    """Is the whole object in the image? [S, 10, C, 2] -> [S, 10, C]"""
    radius = np.broadcast_to(world.radius[:, :, None], spots.shape[:3])
    points = np.concatenate([spots, radius[..., None]], axis=3)  # a sphere of that radius on the ground
    right, up, depth = project(points, world.eye[:, None, None], world.tilt[:, None, None])
    left, right = sphere_extent(right, depth, radius)
    bottom, top = sphere_extent(up, depth, radius)
    return (left > -VIEW) & (right < VIEW) & (bottom > -VIEW) & (top < VIEW)


def visible_pixels(world: World) -> Ints:
    """[S, 10]: how many of 48 × 48 pixels see each object."""
    things = objects(world)
    scratch = np.empty(len(world.num_objects) * JUDGE.height * JUDGE.width, np.uint64)
    hits = first_hits(things, JUDGE, scratch)
    visible = np.zeros(world.shape.shape, np.int64)
    visible[things.scene, things.slot] = np.bincount(hits.item, minlength=len(things.scene))
    return visible
