"""The same image has the same digest in two sets, whatever its name; a changed one has another."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from openjepa.data import digests as identity
from openjepa.data.open import open_source
from openjepa.data.sources.arrays import ArraySource


def draw(folder: Path, **images: int) -> Path:
    """A PNG of noise for each name; equal seeds are equal files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, seed in images.items():
        noise = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"{name}.png")
    return folder


def test_equal_files_are_found_under_other_names(tmp_path: Path) -> None:
    ours = open_source(str(draw(tmp_path / "a", one=1, two=2, three=3)))
    theirs = open_source(str(draw(tmp_path / "b", x=3, y=4)))
    is_shared = identity.occur_in(identity.digests(ours), identity.digests(theirs))
    assert dict(zip(ours.paths, is_shared.tolist(), strict=True)) == {
        "one.png": False,
        "two.png": False,
        "three.png": True,
    }


def test_equal_pixels_are_found_in_arrays() -> None:
    images = torch.randint(256, (6, 3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    first, second = ArraySource("a", images[:4]), ArraySource("b", images[3:])
    is_shared = identity.occur_in(identity.digests(first), identity.digests(second))
    assert is_shared.tolist() == [False, False, False, True]


def test_scenes_are_told_apart_without_being_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = open_source("scenes:5"), open_source("scenes:5", split="test")
    more = open_source("scenes:9", image_size=(32, 32))  # the same scene in another size is the same scene
    monkeypatch.setattr(type(train), "render", None)
    digests = [identity.digests(source) for source in (train, more, test)]
    assert identity.occur_in(digests[0], digests[1]).all() and not identity.occur_in(digests[2], digests[1]).any()


def test_a_file_changed_in_place_to_the_same_size_has_another_digest(tmp_path: Path) -> None:
    path = draw(tmp_path / "a", one=1) / "one.png"
    before, stat = identity.digests(open_source(str(tmp_path / "a"))), path.stat()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as cp -p, tar and rsync do
    after = identity.digests(open_source(str(tmp_path / "a")))
    assert not torch.equal(before, after)


def test_files_are_read_once_and_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source(str(draw(tmp_path / "a", one=1, two=2)))
    first = identity.digests(source)
    monkeypatch.setattr(identity, "_file_digest", None)  # would fail if it were called
    assert torch.equal(identity.digests(source), first)


def test_some_of_the_images_can_be_requested(tmp_path: Path) -> None:
    source = open_source(str(draw(tmp_path / "a", one=1, three=3, two=2)))
    everything = identity.digests(source)
    assert torch.equal(identity.digests(source, torch.tensor([2, 0])), everything[[2, 0]])


def test_a_file_that_is_gone_equals_no_other(tmp_path: Path) -> None:
    folder = draw(tmp_path / "a", one=1)
    for name in ("gone", "lost"):
        (folder / f"{name}.png").symlink_to(folder / "nowhere")
    digests = identity.digests(open_source(str(folder)))
    assert len({row.tobytes() for row in digests.numpy()}) == 3


def test_the_order_of_images_is_part_of_the_content_key() -> None:
    digests = torch.randint(256, (5, 32), dtype=torch.uint8)
    assert identity.content_key(digests) == identity.content_key(digests.clone())
    assert identity.content_key(digests) != identity.content_key(digests.flip(0))
