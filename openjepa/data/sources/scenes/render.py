"""Paints the scenes of `scenes`: a lit ground with soft shadows, and on it the objects, four rays a pixel."""

import numpy as np
from numpy.typing import NDArray

from openjepa.data.sources.scenes.random import words
from openjepa.data.sources.scenes.raster import Raster, Spans, spans
from openjepa.data.sources.scenes.rays import first_hits
from openjepa.data.sources.scenes.shade import shade
from openjepa.data.sources.scenes.world import HALF_HEIGHT, Floats, Ints, Objects, Words, World, objects

RAYS = 2  # along each side of a pixel: 2 × 2 take the stairs out of the edges
CHUNK_PIXELS = (
    2**16
)  # pixels per chunk, so that the arrays stay in the processor's cache; 2**14 and 2**17 are both slower
NOISE = 5.0  # the most that sensor noise adds or takes, in levels of 255

# A shadow is a soft band on the ground, from the object's foot towards the shadow of its top. A row for each shape:
# where along that way the band begins and ends, and its half width at either end in radii.
SHADOW = np.array(
    [(0.28, 0.72, 0.92, 0.92), (0.0, 1.0, 0.8, 0.76), (0.0, 1.0, 0.81, 0.76), (0.0, 0.95, 1.03, 0.1)], np.float32
)
WIDEST_SHADOW = 1.35  # in radii, with its soft edge


def paint(world: World, numbers: Words, *, seed: int, height: int, width: int) -> NDArray[np.uint8]:
    """Scenes [S] -> images [S, 3, h, w]. The numbers of the scenes choose their noise."""
    images = np.empty((len(numbers), 3, height, width), np.uint8)
    step = max(1, CHUNK_PIXELS // (height * width))
    scratch = np.empty(min(step, len(numbers)) * height * width * RAYS**2, np.uint64)
    for begin in range(0, len(numbers), step):
        rows = slice(begin, begin + step)
        light = _light(world.rows(rows), Raster(height, width), scratch)
        images[rows] = _expose(light, words(seed, "noise", numbers[rows], -(-3 * height * width // 4)))
    return images


def _light(world: World, raster: Raster, scratch: Words) -> Floats:
    """[S, 3, h, w] linear light: what the rays of a pixel see, on average."""
    things = objects(world)
    fine = Raster(raster.height * RAYS, raster.width * RAYS)
    hits = first_hits(things, fine, scratch)
    pixel = _coarse(hits.pixel, fine)
    light = _ground(world, things, raster)
    shape, num_pixels = light[:, 0].shape, light[:, 0].size
    light *= (1 - np.bincount(pixel, minlength=num_pixels).astype(np.float32) / RAYS**2).reshape(shape)[:, None]
    for channel, colour in enumerate(shade(world, things, hits)):
        light[:, channel] += (np.bincount(pixel, weights=colour, minlength=num_pixels) / RAYS**2).reshape(shape)
    return light


def _coarse(pixel: Ints, fine: Raster) -> Ints:
    """The pixel of the image that contains each fine one: [V] -> [V]"""
    line, column = np.divmod(pixel, fine.width)
    return line // RAYS * (fine.width // RAYS) + column // RAYS


def _expose(light: Floats, noise: Words) -> NDArray[np.uint8]:
    """[S, 3, h, w] -> bytes, with gamma 2 and noise: the sum of two random bytes of the words [S, at least 3hw/4]."""
    random = noise.astype("<u8", copy=False).view(np.uint8)  # [S, 8 * words]
    size = light[0].size
    grain = random[:, :size].astype(np.float32) + random[:, size : 2 * size] - 255
    levels = np.sqrt(light) * 255 + grain.reshape(light.shape) * (NOISE / 255)
    return np.clip(levels + 0.5, 0, 255).astype(np.uint8)


def _ground(world: World, things: Objects, raster: Raster) -> Floats:
    """[S, 3, h, w] linear light of the ground, brightest around some point, with the shadows."""
    x, y = raster.x(np.arange(raster.width)), raster.y(np.arange(raster.height))  # [w], [h]
    away, depth = _ground_line(world.eye[:, None], world.tilt[:, None], y)  # [S, h]
    right = world.eye[:, :1, None] + depth[:, :, None] * x  # [S, h, w]
    pool_x, pool_y, level, falloff, warm, green = (world.mood * 2 - 1).T[..., None]  # [S, 1], from -1 to 1
    off = (right - 2 * pool_x[..., None]) ** 2 + ((away - 1 - 1.5 * pool_y) ** 2)[..., None]
    light = 0.2 + 0.8 / (1 + (0.01 + 0.005 * falloff)[..., None] * off)  # [S, h, w]
    light *= (0.45 + 0.07 * level)[..., None] * _shadows(world, things, raster)
    tint = 1 + 0.05 * np.stack([warm, green, -warm], axis=1)  # [S, 3, 1]
    return light[:, None] * tint[..., None]


def _ground_line(eye: Floats, tilt: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Where a line of the image meets the ground: its y in the world, and its depth. Eyes [..., 3], tilts [..., 2]"""
    cosine, sine = tilt[..., 0], tilt[..., 1]
    # Near the horizon, which only tall images reach, the ground gives way to a wall.
    depth = eye[..., 2] / np.maximum(sine - y * cosine, 0.15)
    return eye[..., 1] + depth * (cosine + y * sine), depth


def _shadows(world: World, things: Objects, raster: Raster) -> Floats:
    """[S, h, w]: the share of the light that reaches the ground."""
    begin, end, _, _ = SHADOW[things.shape].T  # [O]
    light, height = world.light[things.scene], 2 * things.radius * HALF_HEIGHT[things.shape]
    fall = -light[:, :2] / light[:, 2:] * height[:, None]  # [O, 2] from the foot to the shadow of the top
    start, way = things.position + fall * begin[:, None], fall * (end - begin)[:, None]
    eye = world.eye[things.scene]
    boxes = _shadow_boxes(eye, things, start, start + way, raster)
    item = boxes.item  # [R]
    away, depth = _ground_line(eye[item], things.tilt[item], raster.y(boxes.row))
    away = boxes.spread(away - start[item, 1])  # [F]
    right = boxes.spread(eye[item, 0] - start[item, 0]) + boxes.spread(depth) * raster.x(boxes.column)
    cover = _band_cover(things, boxes, right, away, way)
    reaching = np.ones(len(world.eye) * raster.height * raster.width, np.float32)
    pixel = boxes.spread((things.scene[item] * raster.height + boxes.row) * raster.width) + boxes.column
    np.multiply.at(reaching, pixel, 1 - cover)  # where two shadows meet, both count
    return reaching.reshape(-1, raster.height, raster.width)


def _band_cover(things: Objects, boxes: Spans, right: Floats, away: Floats, way: Floats) -> Floats:
    """How dark the band's shadow is at points relative to where it starts: [F], [F] -> [F]"""
    item = boxes.item
    way_x, way_y = boxes.spread(way[item, 0]), boxes.spread(way[item, 1])
    inverse = (1 / (way[:, 0] ** 2 + way[:, 1] ** 2))[item]
    along = np.clip((right * way_x + away * way_y) * boxes.spread(inverse), 0, 1)
    right, away = right - along * way_x, away - along * way_y
    off = np.sqrt(right * right + away * away) * boxes.spread(1 / things.radius[item])  # in radii
    wide, wide_end = SHADOW[things.shape[item], 2], SHADOW[things.shape[item], 3]
    edge = boxes.spread(wide) + along * boxes.spread(wide_end - wide)
    soft = 0.18 + 0.5 * along  # sharp at the foot, blurred far from it, as under a large lamp
    cover = np.clip((edge - off) / soft + 0.5, 0, 1)
    return cover * cover * (3 - 2 * cover) * (0.78 - 0.25 * along)


def _shadow_boxes(eye: Floats, things: Objects, start: Floats, stop: Floats, raster: Raster) -> Spans:
    """A box on the screen around each band from start to stop [O, 2]."""
    margin = WIDEST_SHADOW * things.radius[:, None]
    low, high = np.minimum(start, stop) - margin - eye[:, :2], np.maximum(start, stop) + margin - eye[:, :2]
    cosine, sine = things.tilt.T
    near, far = (cosine * y + sine * eye[:, 2] for y in (low[:, 1], high[:, 1]))  # depths
    bottom, top = (sine * low[:, 1] - cosine * eye[:, 2]) / near, (sine * high[:, 1] - cosine * eye[:, 2]) / far
    left, right = np.minimum(low[:, 0] / near, low[:, 0] / far), np.maximum(high[:, 0] / near, high[:, 0] / far)
    return spans(raster.columns(left, right), raster.lines(bottom, top))
