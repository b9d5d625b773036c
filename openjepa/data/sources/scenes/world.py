"""What a scene of `scenes` is made of: unit shapes standing on the ground, a camera and a light.

Here and in the other files of this folder only + − × ÷ and √ touch the numbers: IEEE defines their results exactly, so an
image is the same alone, in any batch and on any machine (sines, powers and matrix products are not).
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]  # float32 throughout; numpy's annotations take float32 * 0.5 for float64, so they cannot say it
Ints = NDArray[np.int64]
Bools = NDArray[Any]  # bool; numpy's annotations fear that all(axis=1) is a single one
Words = NDArray[np.uint64]

MAX_OBJECTS = 10
COLOURS = ("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow")  # those of CLEVR
MATERIALS = ("matte", "metal")

SHAPES = ("sphere", "cube", "cylinder", "cone")
SPHERE, CUBE, CYLINDER, CONE = range(4)
# The unit shapes, in the order above, centred on the origin. All are on a ground disc of about radius 1, and their
# areas on screen are close, so that the largest object of an image may have any shape.
HALF_HEIGHT = np.array([1.0, 0.69, 0.81, 1.15], np.float32)
BASE = np.array([1.0, 0.69, 0.81, 1.03], np.float32)  # radius of the round ones, half a side of the cube
BOUND = np.array([1.0, 1.2, 1.15, 1.55], np.float32)  # a sphere around the centre that contains the shape
# The round shapes are {x² + y² + a z² + 2 b z + c ≤ 0} between -HALF_HEIGHT and HALF_HEIGHT; rows (a, b, c).
CONE_SLOPE = (BASE[CONE] / (2 * HALF_HEIGHT[CONE])) ** 2
QUADRIC = np.array(
    [
        (1, 0, -1),
        (0, 0, 0),  # the cube is cut by slabs instead
        (0, 0, -(BASE[CYLINDER] ** 2)),
        (-CONE_SLOPE, CONE_SLOPE * HALF_HEIGHT[CONE], -CONE_SLOPE * HALF_HEIGHT[CONE] ** 2),
    ],
    np.float32,
)


@dataclass(frozen=True)
class World:
    """S scenes of up to 10 objects: x to the right, y away from the camera, z up; the ground is z = 0."""

    num_objects: Ints  # [S]; so many slots at the start of a row are in use
    shape: Ints  # [S, 10]
    colour: Ints  # [S, 10]
    is_metal: Ints  # [S, 10] 0 or 1
    radius: Floats  # [S, 10]
    position: Floats  # [S, 10, 2] where on the ground
    turn: Floats  # [S, 10, 2] cosine and sine of the turn about the vertical
    eye: Floats  # [S, 3] where the camera is
    tilt: Floats  # [S, 2] cosine and sine of the angle by which it looks down
    light: Floats  # [S, 3] unit vector towards the light
    mood: Floats  # [S, 6] in [0, 1): brightness, colour and falloff of light and ground

    def rows(self, rows: slice | Ints) -> "World":
        return World(*(getattr(self, field.name)[rows] for field in fields(self)))

    def is_used(self) -> Bools:
        """[S, 10]"""
        return np.arange(MAX_OBJECTS) < self.num_objects[:, None]


def join(worlds: list[World]) -> World:
    return World(*(np.concatenate([getattr(world, field.name) for world in worlds]) for field in fields(World)))


@dataclass(frozen=True)
class Objects:
    """The O objects of all scenes in one row, with the camera as each sees it from its own frame."""

    scene: Ints  # [O]
    slot: Ints  # [O]
    shape: Ints  # [O]
    radius: Floats  # [O]
    position: Floats  # [O, 2]
    turn: Floats  # [O, 2]; a round object counts as not turned
    tilt: Floats  # [O, 2]
    eye: Floats  # [O, 3] in the own frame, in units of the radius
    centre: Floats  # [O, 3] right, up and depth as the camera sees it

    def rows(self, rows: Ints) -> "Objects":
        return Objects(*(getattr(self, field.name)[rows] for field in fields(self)))


def objects(world: World) -> Objects:
    scene, slot = np.nonzero(world.is_used())  # [O]
    shape, radius, position = world.shape[scene, slot], world.radius[scene, slot], world.position[scene, slot]
    turn = np.where((shape == CUBE)[:, None], world.turn[scene, slot], np.array([1, 0], np.float32))  # [O, 2]
    eye, tilt, height = world.eye[scene], world.tilt[scene], radius * HALF_HEIGHT[shape]
    centre = project(np.concatenate([position, height[:, None]], axis=1), eye, tilt)
    x, y = eye[:, 0] - position[:, 0], eye[:, 1] - position[:, 1]
    own_x, own_y = turn[:, 0] * x + turn[:, 1] * y, turn[:, 0] * y - turn[:, 1] * x
    own_eye = np.stack([own_x, own_y, eye[:, 2] - height], axis=1) / radius[:, None]  # [O, 3]
    return Objects(scene, slot, shape, radius, position, turn, tilt, own_eye, np.stack(centre, axis=1))


def project(points: Floats, eye: Floats, tilt: Floats) -> tuple[Floats, Floats, Floats]:
    """Points [..., 3] seen from eyes [..., 3]: right, up and depth [...]; on screen it is right/depth, up/depth."""
    right, away, above = (points[..., axis] - eye[..., axis] for axis in range(3))
    cosine, sine = tilt[..., 0], tilt[..., 1]
    return right, sine * away + cosine * above, cosine * away - sine * above
