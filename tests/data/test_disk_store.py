"""Decoded images on disk: the same batches as without, never stale, never half, never too much."""

import multiprocessing
import os
import pickle
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import runner
from openjepa.core.errors import BadInput
from openjepa.core.types import Batch
from openjepa.data.batches import disk_store, from_files, images
from openjepa.data.batches.from_files import FileImages
from openjepa.data.batches.loader import Loader
from openjepa.data.batches.order import Order, Split
from openjepa.data.crops.crop import RandomCrop
from openjepa.data.open import open_source
from openjepa.machine import cache

CROP = RandomCrop(size=(16, 16), scale=(0.3, 1.0), aspect=(0.75, 4 / 3), flip=True)


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENJEPA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All kinds: JPEG decoded at a smaller scale, grey, on its side, large and small PNG."""
    folder = runner.make_images(tmp_path / "images", number=8)
    random = np.random.default_rng(1)
    for index in range(8):
        smooth = Image.fromarray(random.integers(0, 256, (5, 7, 3), dtype=np.uint8)).resize((150 + index, 121))
        exif = Image.Exif()
        exif[0x0112] = index + 1
        smooth.convert("L" if index == 2 else "RGB").save(folder / f"{index}.jpg", exif=exif)
    return folder


def opened(folder: Path, where: str, num_workers: int = 0) -> FileImages:
    return FileImages(open_source(str(folder)), (CROP,), cache=where, num_workers=num_workers)


def batches(images: FileImages, number: int = 4) -> list[Batch]:
    stream = loader_of(images).batches(0)
    return [next(stream) for _ in range(number)]


def same(ours: list[Batch], theirs: list[Batch]) -> bool:
    return all(
        torch.equal(a.images, b.images) and torch.equal(a.index, b.index) for a, b in zip(ours, theirs, strict=True)
    )


def tables(cache_folder: Path) -> set[str]:
    """Names of the finished caches; digests of files are beside them, without a large file."""
    return {path.stem for path in cache_folder.glob("*.bytes")}


@pytest.mark.parametrize(("where", "num_workers"), [("disk", 0), ("disk", 1), ("memory", 0), ("memory", 1)])
def test_batches_from_a_cache_equal_those_decoded_on_demand_bit_for_bit(
    folder: Path, where: str, num_workers: int
) -> None:
    expected = batches(opened(folder, "none"))
    assert same(batches(opened(folder, where, num_workers)), expected)
    assert same(batches(opened(folder, where)), expected), "and the second time"


def test_the_second_time_nothing_is_decoded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(folder, "disk")
    monkeypatch.setattr(disk_store, "write", lambda *_: pytest.fail("decoded again"))
    assert opened(folder, "disk").store is not None


def test_the_cache_is_of_the_content_not_of_the_folder(folder: Path, cache_folder: Path, tmp_path: Path) -> None:
    opened(folder, "disk")
    folder.rename(tmp_path / "moved")
    opened(tmp_path / "moved", "disk")
    assert len(tables(cache_folder)) == 1


def test_a_changed_file_is_never_shown_as_it_was(tmp_path: Path, cache_folder: Path) -> None:
    """Even if neither its length nor its time tells."""
    folder = tmp_path / "flat"
    folder.mkdir()
    for index in range(8):
        Image.new("RGB", (20, 20), (index, 0, 0)).save(folder / f"{index}.bmp")
    before, times = batches(opened(folder, "disk"), 1), (folder / "3.bmp").stat()
    Image.new("RGB", (20, 20), (255, 255, 255)).save(folder / "3.bmp")
    os.utime(folder / "3.bmp", ns=(times.st_atime_ns, times.st_mtime_ns))
    after = batches(opened(folder, "disk"), 1)
    assert same(after, batches(opened(folder, "none"), 1)) and not same(after, before)
    assert len(tables(cache_folder)) == 2


def test_another_size_of_crop_is_another_cache(folder: Path, cache_folder: Path) -> None:
    opened(folder, "disk")
    FileImages(open_source(str(folder)), (RandomCrop(size=(8, 8), scale=CROP.scale, aspect=CROP.aspect),), cache="disk")
    assert len(tables(cache_folder)) == 2


@pytest.mark.parametrize("damage", ["cut short", "no table", "left by a killed process"])
def test_a_half_written_cache_is_not_used(folder: Path, cache_folder: Path, damage: str) -> None:
    opened(folder, "disk")
    (name,) = tables(cache_folder)
    pixels = cache_folder / f"{name}.bytes"
    if damage == "cut short":
        os.truncate(pixels, pixels.stat().st_size - 1)
    else:
        (cache_folder / f"{name}.safetensors").unlink()
    if damage == "left by a killed process":
        pixels.rename(cache_folder / f".{name}.bytes.4711")
    assert disk_store.load(name, open_source(str(folder))) is None
    assert same(batches(opened(folder, "disk")), batches(opened(folder, "none")))
    assert {path.name for path in cache_folder.glob(f"*{name}*")} == {
        f"{name}.bytes",
        f"{name}.safetensors",
        f".{name}.lock",
    }


def test_what_fails_on_the_way_leaves_nothing(
    folder: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_store.os, "fsync", lambda number: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        opened(folder, "disk")
    assert not list(cache_folder.glob("*bytes*"))


def test_files_that_change_while_they_are_decoded_are_not_stored(folder: Path, cache_folder: Path) -> None:
    source = open_source(str(folder))
    name = disk_store.name_of(source, (CROP,))
    images = FileImages(source, (CROP,), cache="none")

    def parts():
        yield from images._parts("")
        Image.new("RGB", (9, 9)).save(folder / "000.png")

    with pytest.raises(BadInput, match="changed while they were decoded"):
        disk_store.write(name, source, (CROP,), parts(), 1.0)
    assert not tables(cache_folder)


def test_too_much_for_the_cache_is_an_error_or_decoded_on_demand(folder: Path, cache_folder: Path, monkeypatch) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE_GB", "0.00001")
    monkeypatch.setattr(from_files, "memory_limit", lambda: 0.0)
    with pytest.raises(BadInput, match="the cache may hold 1e-05; raise OPENJEPA_CACHE_GB"):
        opened(folder, "disk")
    assert opened(folder, "auto").store is None and not list(cache_folder.glob("*"))


def test_more_than_the_sample_promised_is_noticed_while_writing(folder: Path, cache_folder: Path, monkeypatch) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE_GB", "0.00001")
    monkeypatch.setattr(FileImages, "_expected_bytes", lambda self: 1.0)
    with pytest.raises(BadInput, match="raise OPENJEPA_CACHE_GB"):
        opened(folder, "disk")
    assert not list(cache_folder.glob("*bytes*"))


def test_a_full_disk_is_an_error_before_it_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_store, "SPARE", 1e18)
    with pytest.raises(BadInput, match="set OPENJEPA_CACHE to a folder with more"):
        opened(folder, "disk")


def test_a_cache_that_is_off_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE", "off")
    monkeypatch.setattr(from_files, "memory_limit", lambda: 0.0)
    with pytest.raises(BadInput, match="OPENJEPA_CACHE is off"):
        opened(folder, "disk")
    assert opened(folder, "auto").store is None


@pytest.mark.slow
def test_the_command_reports_it_too_and_exits_with_two(folder: Path, tmp_path: Path) -> None:
    words = runner.words(folder, tmp_path / "run", "data.cache=disk", "data.workers=0")
    done = runner.command(*words, env={"OPENJEPA_CACHE_GB": "0.00001"})
    assert done.returncode == 2 and "raise OPENJEPA_CACHE_GB" in done.stderr, done.stderr


def test_what_does_not_fit_in_memory_goes_to_disk(folder: Path, cache_folder: Path, monkeypatch) -> None:
    assert opened(folder, "auto").store is not None and not cache_folder.exists()
    monkeypatch.setattr(from_files, "memory_limit", lambda: 0.0)
    assert opened(folder, "auto").store is not None and len(tables(cache_folder)) == 1


def test_what_was_not_used_for_longest_makes_room(folder: Path, cache_folder: Path, monkeypatch) -> None:
    opened(folder, "disk")
    (old,) = tables(cache_folder)
    for path in cache_folder.glob("*.*"):
        os.utime(path, (1, 1))
    size = (cache_folder / f"{old}.bytes").stat().st_size
    monkeypatch.setenv("OPENJEPA_CACHE_GB", str(1.5 * size / 1e9))
    FileImages(
        open_source(str(folder)), (RandomCrop(size=(17, 17), scale=CROP.scale, aspect=CROP.aspect),), cache="disk"
    )
    assert len(tables(cache_folder)) == 1 and old not in tables(cache_folder) and cache.load(old) is None


def write_and_count(folder: Path, log: Path, together) -> None:
    original = disk_store._write

    def counted(*arguments) -> None:
        with log.open("a") as file:
            file.write("written\n")
        time.sleep(0.5)  # the other one gets to the lock meanwhile
        original(*arguments)

    disk_store._write = counted
    together.wait(60)
    assert len(batches(opened(folder, "disk"))) == 4


def test_two_processes_that_need_the_same_write_it_once(folder: Path, cache_folder: Path, tmp_path: Path) -> None:
    forking = multiprocessing.get_context("fork")
    arguments = (folder, tmp_path / "log", forking.Barrier(2))
    processes = [forking.Process(target=write_and_count, args=arguments) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    assert (tmp_path / "log").read_text() == "written\n" and len(tables(cache_folder)) == 1
    assert same(batches(opened(folder, "disk")), batches(opened(folder, "none")))


def test_broken_images_are_replaced_and_reported_as_without_a_cache(folder: Path, tmp_path: Path) -> None:
    (folder / "003.png").write_bytes(b"")
    (folder / "004.png").write_bytes((folder / "005.png").read_bytes()[:200])
    plain, *stored = (opened(folder, name) for name in ("none", "memory", "disk", "disk"))
    stream = [one.batches(loader_of(one).requests(0), torch.device("cpu")) for one in (plain, *stored)]
    epoch = [[next(crops) for _ in range(2)] for crops in stream]
    expected = epoch[0][0].broken | epoch[0][1].broken
    assert {Path(path).name: reason for path, reason in expected.items()}["003.png"] == "empty file" and len(
        expected
    ) == 2
    for crops in epoch[1:]:
        assert crops[0].broken == expected and torch.equal(crops[1].views[0], epoch[0][1].views[0])


def loader_of(images: FileImages) -> Loader:
    return Loader(images, Order(len(images), 8, 1), Split(batch_size=8), 1, 0.5, torch.device("cpu"))


def test_a_mapped_file_is_pickled_as_its_name(folder: Path) -> None:
    store = opened(folder, "disk").store
    assert store is not None and len(pickle.dumps(store.pieces)) < 500
    assert torch.equal(pickle.loads(pickle.dumps(store.pieces))[0], store.pieces[0])


def test_several_processes_of_a_run_share_one_copy_and_the_decoding_workers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = opened(folder, "auto")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    shared = opened(folder, "auto")
    assert isinstance(shared.store.pieces, disk_store.Mapped) and not isinstance(alone.store.pieces, disk_store.Mapped)
    assert same(batches(alone), batches(shared))
    shares = [images.workers_of_process(number, torch.device("cpu")) for number in (0, 1, 2, 5)]
    assert shares == [0, 0, 1, 2] and images.workers_of_process(5, torch.device("cuda")) == 5
    monkeypatch.setenv("OPENJEPA_CACHE", "off")
    assert same(batches(alone), batches(opened(folder, "auto"))), "without a cache folder each holds its own"
