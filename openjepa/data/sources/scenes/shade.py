"""The colour of an object where a ray meets it: matte paint, or a cheap metal that mirrors a studio.

Everything happens in the object's own frame, in linear light, for V hits at once; a vector is three arrays [V].
"""

import numpy as np

from openjepa.data.sources.scenes.rays import Hits
from openjepa.data.sources.scenes.world import CUBE, HALF_HEIGHT, QUADRIC, Floats, Ints, Objects, World

Vector = tuple[Floats, Floats, Floats]

PAINT = np.array(  # gray, red, blue, green, brown, purple, cyan, yellow: CLEVR's own values, as displayed
    [
        (87, 87, 87),
        (173, 35, 35),
        (42, 75, 215),
        (29, 105, 20),
        (129, 74, 25),
        (129, 38, 192),
        (41, 208, 208),
        (255, 238, 51),
    ],
    np.float32,
)


def shade(world: World, things: Objects, hits: Hits) -> list[Floats]:
    """Linear red, green and blue [V] of what each hit sees."""
    item = hits.item
    length = np.sqrt(1 + hits.x * hits.x + hits.y * hits.y)
    ray = _own_rays(things, hits, length)
    reach = hits.depth * length / things.radius[item]
    x, y, z = (things.eye[:, axis][item] + reach * ray[axis] for axis in range(3))
    normal = _normal(things.shape[item], (x, y, z))
    light = _own_light(world, things, item)
    # 0 at the ground and 1 at the top: the ground keeps some light from what is close to it
    height = np.clip(z / HALF_HEIGHT[things.shape][item] * 0.5 + 0.5, 0, 1)
    is_metal = world.is_metal[things.scene, things.slot].astype(np.float32)[item]
    body, shine = _reflect(ray, normal, light, height, is_metal)
    paint = ((PAINT / 255) ** 2)[world.colour[things.scene, things.slot]]  # [O, 3]
    return [np.minimum(body * paint[:, channel][item] + shine, 1) for channel in range(3)]


def _reflect(ray: Vector, normal: Vector, light: Vector, height: Floats, is_metal: Floats) -> tuple[Floats, Floats]:
    """How much light comes back in the object's own colour, and how much in the light's: [V] each."""
    towards, facing = _dot(normal, light), -2 * _dot(normal, ray)
    lit = np.maximum(towards, 0)
    mirror = (ray[0] + facing * normal[0], ray[1] + facing * normal[1], ray[2] + facing * normal[2])
    matte = (0.28 + 0.12 * normal[2]) * (0.55 + 0.45 * height) + 0.85 * lit
    studio = _studio(mirror, light)
    metal = (0.06 + 0.25 * lit + 1.1 * studio) * (0.4 + 0.6 * height)
    glance = np.maximum(_dot(mirror, light), 0)  # Phong's cosine; its powers make the highlight
    broad = _square(_square(_square(glance)))  # to the 8th
    narrow = _square(_square(broad))  # to the 32nd
    body = matte + is_metal * (metal - matte)
    return body, 0.06 * broad + is_metal * (0.1 * studio + 1.1 * narrow)


def _studio(mirror: Vector, light: Vector) -> Floats:
    """What a mirror sees: a sky bright above, and a tall lamp on the light's side, which draws bands on metal."""
    sky = np.clip(1.2 * mirror[2] + 0.45, 0, 1)
    lamp = np.maximum(mirror[0] * light[0] + mirror[1] * light[1], 0)
    lamp = lamp * lamp / (light[0] * light[0] + light[1] * light[1])
    return 0.9 * _square(sky) + _square(lamp)


def _own_rays(things: Objects, hits: Hits, length: Floats) -> Vector:
    """Unit vectors from the eye to the hits, in the objects' own frames."""
    item = hits.item
    (cosine, sine), (tilt_cosine, tilt_sine) = things.turn.T, things.tilt.T
    right = hits.x / length
    away = (tilt_cosine[item] + hits.y * tilt_sine[item]) / length
    above = (hits.y * tilt_cosine[item] - tilt_sine[item]) / length
    cosine, sine = cosine[item], sine[item]
    return cosine * right + sine * away, cosine * away - sine * right, above


def _own_light(world: World, things: Objects, item: Ints) -> Vector:
    x, y, z = world.light[things.scene].T
    cosine, sine = things.turn.T
    return (cosine * x + sine * y)[item], (cosine * y - sine * x)[item], z[item]


def _normal(shape: Ints, point: Vector) -> Vector:
    """Unit normals of the unit shapes."""
    is_cube = shape == CUBE
    is_cap = point[2] > HALF_HEIGHT[shape] * 0.999  # the flat top of a cylinder; on the others it is right as well
    normal = (
        np.where(is_cube, _bevel(point[0]), np.where(is_cap, 0, point[0])),
        np.where(is_cube, _bevel(point[1]), np.where(is_cap, 0, point[1])),
        np.where(
            is_cube, _bevel(point[2]), np.where(is_cap, 1, QUADRIC[:, 0][shape] * point[2] + QUADRIC[:, 1][shape])
        ),
    )
    scale = 1 / np.sqrt(_dot(normal, normal))
    return normal[0] * scale, normal[1] * scale, normal[2] * scale


def _bevel(side: Floats) -> Floats:
    """A cube's normal is that of x¹⁴ + y¹⁴ + z¹⁴ = 1: flat faces with rounded edges, which catch the light."""
    side = side / HALF_HEIGHT[CUBE]
    fourth = _square(_square(side))
    return fourth * fourth * fourth * side


def _dot(a: Vector, b: Vector) -> Floats:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _square(x: Floats) -> Floats:
    return x * x
