"""Miniature copies of every registered data source, written in the layout that its readers expect."""

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

NUM_IMAGES = 4


@dataclass(frozen=True)
class Miniature:
    spec: str  # for open_source
    files: tuple[Path, ...] = ()  # of the images, in the source's order; empty: the source has no files


def noise(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def images(root: Path, names: list[str], seed: int) -> tuple[Path, ...]:
    """Their size depends on the seed: the fingerprint of files sees byte sizes, not contents."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(9 + seed, 7, 3, seed=seed)).save(root / name)
    return tuple(root / name for name in names)


def folder(root: Path, seed: int) -> Miniature:
    files = images(root, ["cats/0.png", "cats/1.png", "dogs/2.png", "dogs/3.png"], seed)
    return Miniature(f"folder:{root}", files)


def list_file(root: Path, seed: int) -> Miniature:
    files = images(root, [f"{index}.png" for index in range(NUM_IMAGES)], seed)
    (root / "list.csv").write_text("".join(f"{path.name},{index % 2}\n" for index, path in enumerate(files)))
    return Miniature(f"list:{root / 'list.csv'}", files)


def imagenet(root: Path, seed: int) -> Miniature:
    names = [f"train/{wnid}/{wnid}_{index}.JPEG" for wnid in ("n01440764", "n02110185") for index in range(2)]
    return Miniature(f"imagenet:{root}", images(root, names, seed))


def places205(root: Path, seed: int) -> Miniature:
    names = ["a/abbey/0.jpg", "a/alley/1.jpg", "a/abbey/2.jpg", "a/alley/3.jpg"]
    files = images(root / "images256", names, seed)
    text = "".join(f"{name} {index % 2}\n" for index, name in enumerate(names))
    (root / "train_places205.csv").write_text(text)
    return Miniature(f"places205:{root}", files)


def inat18(root: Path, seed: int) -> Miniature:
    names = [f"train_val2018/Plantae/{index % 2}/{index}.jpg" for index in range(NUM_IMAGES)]
    files = images(root, names, seed)
    content = {
        "images": [{"id": index, "file_name": name} for index, name in enumerate(names)],
        "annotations": [{"image_id": index, "category_id": index % 2} for index in range(NUM_IMAGES)],
    }
    (root / "train2018.json").write_text(json.dumps(content))
    return Miniature(f"inat18:{root}", files)


def clevr(root: Path, seed: int) -> Miniature:
    names = [f"CLEVR_train_{index:06}.png" for index in range(NUM_IMAGES)]
    files = images(root / "images/train", names, seed)
    scenes = [
        {"image_filename": name, "objects": [{"pixel_coords": [1, 2, 8.2 + index]}] * (3 + index)}
        for index, name in enumerate(names)
    ]
    (root / "scenes").mkdir(exist_ok=True)
    (root / "scenes/CLEVR_train_scenes.json").write_text(json.dumps({"scenes": scenes}))
    return Miniature(f"clevr:{root}", files)


def cifar10(root: Path, seed: int) -> Miniature:
    inside = root / "cifar-10-batches-bin"
    inside.mkdir(parents=True, exist_ok=True)
    for number in range(1, 6):
        rows = noise(NUM_IMAGES, 3073, seed=seed + number)
        rows[:, 0] %= 10
        (inside / f"data_batch_{number}.bin").write_bytes(rows.tobytes())
    return Miniature(f"cifar10:{root}")


def cifar100(root: Path, seed: int) -> Miniature:
    inside = root / "cifar-100-python"
    inside.mkdir(parents=True, exist_ok=True)
    labels = list(range(NUM_IMAGES))
    content = {"data": noise(NUM_IMAGES, 3072, seed=seed), "coarse_labels": labels, "fine_labels": labels}
    (inside / "train").write_bytes(pickle.dumps(content, protocol=2))
    return Miniature(f"cifar100:{root}")


def idx(root: Path, seed: int) -> Miniature:
    root.mkdir(parents=True, exist_ok=True)
    for name, array in (("images-idx3", noise(NUM_IMAGES, 5, 6, seed=seed)), ("labels-idx1", noise(4, seed=0))):
        sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
        (root / f"train-{name}-ubyte").write_bytes(bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes())
    return Miniature(f"idx:{root}")


def npz(root: Path, seed: int) -> Miniature:
    root.mkdir(parents=True, exist_ok=True)
    np.savez(root / "a.npz", images=noise(NUM_IMAGES, 5, 6, 3, seed=seed), labels=np.arange(NUM_IMAGES) % 2)
    return Miniature(f"npz:{root / 'a.npz'}")


def scenes(root: Path, seed: int) -> Miniature:
    return Miniature(f"scenes:{NUM_IMAGES + seed}")


WRITERS: dict[str, Callable[[Path, int], Miniature]] = {
    "folder": folder,
    "list": list_file,
    "imagenet": imagenet,
    "places205": places205,
    "inat18": inat18,
    "clevr": clevr,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "idx": idx,
    "npz": npz,
    "scenes": scenes,
}
