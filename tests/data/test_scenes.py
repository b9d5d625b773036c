"""The embedded world: images are a pure function of their number, and labels say what the images show."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch

from openjepa.core.contracts import SourceRequest, sources
from openjepa.core.errors import BadInput
from openjepa.data.sources.scenes.layout import GAP, MIN_VISIBLE, Layout, layout
from openjepa.data.sources.scenes.raster import VIEW, Raster
from openjepa.data.sources.scenes.rays import Hits, first_hits
from openjepa.data.sources.scenes.render import paint
from openjepa.data.sources.scenes.source import DISTANCE_EDGES, VERSION, Scenes, open_scenes
from openjepa.data.sources.scenes.world import (
    BASE,
    CONE,
    CYLINDER,
    HALF_HEIGHT,
    SHAPES,
    SPHERE,
    Floats,
    World,
    objects,
    project,
)


@pytest.fixture(scope="module")
def many() -> Layout:
    return layout(0, np.arange(4000, dtype=np.uint64))


@pytest.fixture(scope="module")
def many_labels() -> dict[str, torch.Tensor]:
    return Scenes(4000, (32, 32)).labels(range(4000))


def row_of(shapes: list[int], places: list[tuple[float, float]], *, radius: float = 0.7) -> World:
    """One scene with these objects and an ordinary camera and light."""
    world = layout(0, np.arange(1, dtype=np.uint64)).world
    num, sizes, ground = len(shapes), np.zeros((1, 10), np.float32), np.zeros((1, 10, 2), np.float32)
    kinds = np.zeros((1, 10), np.int64)
    kinds[0, :num], sizes[0, :num], ground[0, :num] = shapes, radius, places
    turn = np.full((1, 10, 2), (0.8, 0.6), np.float32)
    return replace(world, num_objects=np.array([num]), shape=kinds, radius=sizes, position=ground, turn=turn)


def look(world: World, raster: Raster) -> Hits:
    return first_hits(objects(world), raster, np.empty(len(world.eye) * raster.height * raster.width, np.uint64))


def is_inside(world: World, slot: int, points: Floats) -> np.ndarray:
    """[..., 3] world points -> [...]: the textbook test for each solid of scene 0."""
    shape, radius = int(world.shape[0, slot]), float(world.radius[0, slot])
    half, base = float(HALF_HEIGHT[shape]) * radius, float(BASE[shape]) * radius
    x, y = points[..., 0] - world.position[0, slot, 0], points[..., 1] - world.position[0, slot, 1]
    z = points[..., 2]
    across = np.hypot(x, y)
    if shape == SPHERE:
        return np.hypot(across, z - half) <= radius
    is_between = (z >= 0) & (z <= 2 * half)
    if shape == CYLINDER:
        return is_between & (across <= base)
    if shape == CONE:
        return is_between & (across <= base * (1 - z / (2 * half)))
    angle = np.arctan2(world.turn[0, slot, 1], world.turn[0, slot, 0])
    turned_x, turned_y = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
    return is_between & (np.abs(turned_x) <= base) & (np.abs(turned_y) <= base)


def test_an_image_is_the_same_alone_and_in_any_batch() -> None:
    source = Scenes(300, (24, 40), seed=3)
    images, labels = source.render(range(300))
    for indices in ([7], [299, 0, 7], list(range(120, 180))):
        some, some_labels = source.render(indices)
        assert torch.equal(some, images[indices])
        assert all(torch.equal(some_labels[name], labels[name][indices]) for name in labels)
    sample = source[7]
    assert torch.equal(sample.image, images[7])
    assert sample.labels == {name: int(values[7]) for name, values in labels.items()}


def test_labels_do_not_depend_on_the_size_and_need_no_image() -> None:
    small, wide = Scenes(40, (16, 16)), Scenes(40, (24, 48))
    rendered = wide.render(range(40))[1]
    for name, values in small.labels(range(40)).items():
        assert values.dtype == torch.int64
        assert torch.equal(values, rendered[name])


def test_images_are_bytes_of_the_requested_size_square_or_not() -> None:
    for height, width in ((64, 64), (48, 96), (40, 24), (9, 11)):
        images, _ = Scenes(5, (height, width)).render(range(5))
        assert images.shape == (5, 3, height, width)
        assert images.dtype == torch.uint8
        assert images.float().std() > 10


def test_no_indices_give_no_images() -> None:
    images, labels = Scenes(5, (16, 24)).render([])
    assert images.shape == (0, 3, 16, 24)
    assert all(len(values) == 0 for values in labels.values())


def test_other_seeds_and_other_numbers_give_other_images() -> None:
    images, _ = Scenes(50, (16, 16)).render(range(50))
    others, _ = Scenes(50, (16, 16), seed=1).render(range(50))
    assert len(torch.cat([images, others]).flatten(1).unique(dim=0)) == 100


def test_every_class_of_every_label_occurs_in_fair_share(many_labels: dict[str, torch.Tensor]) -> None:
    assert many_labels.keys() == Scenes.class_names.keys()
    for name, values in many_labels.items():
        share = torch.bincount(values, minlength=Scenes.num_classes[name]) / len(values)
        assert len(share) == len(Scenes.class_names[name])
        assert share.min() > 0.7 / len(share), (name, share)
        assert share.max() < 1.3 / len(share), (name, share)


def test_count_is_the_number_of_objects_that_pixels_see(many: Layout, many_labels: dict[str, torch.Tensor]) -> None:
    seen = (many.visible > 0).sum(axis=1)  # [S], from the ray caster, not from the draw
    assert np.array_equal(many_labels["count"].numpy(), seen - 3)
    assert many.visible[many.visible > 0].min() >= MIN_VISIBLE


def test_distance_is_the_bin_of_the_nearest_centre(many: Layout, many_labels: dict[str, torch.Tensor]) -> None:
    world = many.world
    for scene in range(50):
        distances = []
        for slot in range(world.num_objects[scene]):
            height = world.radius[scene, slot] * HALF_HEIGHT[world.shape[scene, slot]]
            distances.append(np.linalg.norm([*world.position[scene, slot], height] - world.eye[scene]))
        assert many_labels["distance"][scene] == sum(min(distances) >= edge for edge in DISTANCE_EDGES)


def test_shape_colour_and_material_are_those_of_the_object_with_most_pixels(many_labels: dict) -> None:
    numbers = np.arange(20, dtype=np.uint64)
    world, raster = layout(0, numbers).world, Raster(48, 48)
    things, hits = objects(world), look(world, raster)
    for scene in range(20):
        items, pixels = np.unique(hits.item[hits.pixel // raster.height // raster.width == scene], return_counts=True)
        largest = things.slot[items[pixels.argmax()]]
        assert many_labels["shape"][scene] == world.shape[scene, largest]
        assert many_labels["colour"][scene] == world.colour[scene, largest]
        assert many_labels["material"][scene] == world.is_metal[scene, largest]


def test_objects_keep_apart_and_inside_the_frame(many: Layout) -> None:
    world, is_used = many.world, many.world.is_used()
    away = np.linalg.norm(world.position[:, :, None] - world.position[:, None], axis=-1)  # [S, 10, 10]
    apart = world.radius[:, :, None] + world.radius[:, None] + GAP
    is_pair = is_used[:, :, None] & is_used[:, None] & ~np.eye(10, dtype=bool)
    assert (away > apart - 1e-5)[is_pair].all()
    points = np.concatenate([world.position, world.radius[..., None]], axis=-1)
    right, up, depth = project(points, world.eye[:, None], world.tilt[:, None])
    assert (np.abs(right / depth) < VIEW)[is_used].all()
    assert (np.abs(up / depth) < VIEW)[is_used].all()


@pytest.mark.parametrize("number", [2, 3, 5, 10])
def test_rays_see_what_a_slow_march_sees(number: int) -> None:
    world, raster, step = layout(0, np.array([number], np.uint64)).world, Raster(24, 24), 0.02
    rows, columns = np.divmod(np.arange(raster.height * raster.width), raster.width)
    x, y = raster.x(columns)[:, None], raster.y(rows)[:, None]  # [pixels, 1]
    depth = np.arange(4, 16, step)  # [steps]
    cosine, sine = world.tilt[0]
    ray = np.stack(np.broadcast_arrays(x, cosine + y * sine, y * cosine - sine), axis=-1)
    points = world.eye[0] + depth[:, None] * ray  # [pixels, steps, 3]
    inside = np.stack([is_inside(world, slot, points) for slot in range(world.num_objects[0])])  # [O, pixels, steps]
    is_hit = inside.any(axis=(0, 2))  # [pixels]
    first = inside.any(axis=0).argmax(axis=1)  # [pixels]
    hits = look(world, raster)
    # A march may step over a thin corner: all that it meets must be met, and hardly more.
    assert set(np.flatnonzero(is_hit)) <= set(hits.pixel)
    assert len(hits.pixel) - is_hit.sum() <= 0.03 * len(hits.pixel) + 1
    agree = is_hit[hits.pixel]
    marched = depth[first[hits.pixel]]
    assert (np.abs(marched - hits.depth - step / 2)[agree] < step).mean() > 0.97
    assert inside[hits.item[agree], hits.pixel[agree], first[hits.pixel[agree]]].mean() > 0.97


@pytest.mark.parametrize("shape", range(len(SHAPES)), ids=SHAPES)
def test_the_nearer_object_hides_the_farther_and_is_larger_and_lower(shape: int) -> None:
    raster = Raster(64, 64)
    together = look(row_of([shape, shape], [(0.0, 0.7), (0.1, -0.8)]), raster)
    far, near = (look(row_of([shape], [position]), raster) for position in ((0.0, 0.7), (0.1, -0.8)))
    both = set(far.pixel) & set(near.pixel)
    assert both  # they overlap on the screen
    owner = dict(zip(together.pixel.tolist(), together.item.tolist(), strict=True))
    assert all(owner[pixel] == 1 for pixel in both)
    assert owner.keys() == set(far.pixel.tolist()) | set(near.pixel.tolist())
    assert len(near.pixel) > len(far.pixel)
    assert (near.pixel // 64).mean() > (far.pixel // 64).mean()


def test_an_object_darkens_the_ground_on_the_side_away_from_the_light() -> None:
    world = replace(row_of([SPHERE], [(0.0, 0.0)]), light=np.array([[-0.6, -0.2, 0.775]], np.float32))
    elsewhere = replace(world, position=world.position + np.float32(50))  # the same ground without anything in view
    number = np.zeros(1, np.uint64)
    with_it, without = (paint(w, number, seed=0, height=64, width=64)[0].astype(int) for w in (world, elsewhere))
    darker = (without - with_it).mean(axis=0)  # [h, w]
    darker.reshape(-1)[look(world, Raster(64, 64)).pixel] = 0  # the object itself does not count
    columns = np.nonzero(darker > 20)[1]
    assert len(columns) > 20
    assert (columns > 32).mean() > 0.8  # the light comes from the left


def test_train_and_test_are_parts_far_apart_of_the_same_world() -> None:
    train, test = (open_scenes(SourceRequest(split=split)) for split in ("train", "test"))
    assert (len(train), len(test)) == (20_000, 4_000)
    assert train.seed == test.seed
    assert train.first + len(train) <= test.first
    assert train.fingerprint() != test.fingerprint()
    assert not torch.equal(train[0].image, test[0].image)


def test_the_source_is_found_by_name_and_takes_a_number_of_images() -> None:
    source = sources["scenes"](SourceRequest(path="50", image_size=(16, 24)))
    assert len(source) == 50
    assert source[49].image.shape == (3, 16, 24)
    with pytest.raises(IndexError):
        source[50]


@pytest.mark.parametrize("path", ["", "many", "-3", "0", "1.5", "/data/clevr", "99999999999"])
def test_a_path_that_is_no_number_of_images_is_refused(path: str) -> None:
    with pytest.raises(BadInput, match="scenes:5000"):
        open_scenes(SourceRequest(path=path))


def test_an_unknown_split_and_a_tiny_size_are_refused() -> None:
    with pytest.raises(BadInput, match="train and test"):
        open_scenes(SourceRequest(split="validation"))
    with pytest.raises(BadInput, match="8×8"):
        open_scenes(SourceRequest(image_size=(64, 4)))


def test_the_fingerprint_names_all_that_changes_the_images() -> None:
    base = Scenes(10, (32, 32))
    others = [replace(base, **change) for change in ({"num_images": 11}, {"size": (32, 40)}, {"seed": 1}, {"first": 5})]
    assert len({source.fingerprint() for source in (base, *others)}) == 5


def test_images_stay_the_same_until_the_version_is_raised() -> None:
    # If this fails, images or labels have changed: raise VERSION, so that no run resumes on other data.
    images, labels = Scenes(4, (32, 48)).render(range(4))
    assert VERSION == 1
    assert hashlib.sha256(images.numpy().tobytes()).hexdigest()[:16] == "2435aee2b77a205e"
    assert {name: values.tolist() for name, values in labels.items()} == {
        "count": [3, 3, 7, 0],
        "distance": [0, 2, 1, 4],
        "shape": [1, 0, 2, 0],
        "colour": [6, 2, 0, 7],
        "material": [0, 0, 0, 0],
    }
