"""The disk cache: it returns what it stored, deletes damaged and excess files, and never breaks a run."""

import os
from pathlib import Path

import pytest
import torch

from openjepa.core.errors import BadInput
from openjepa.machine import cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENJEPA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_stored_tensors_load_again(folder: Path) -> None:
    name = cache.key("features", "a")
    assert cache.load(name) is None
    tensors = {"x": torch.randn(3, 4).t(), "ok": torch.tensor([True, False])}
    assert cache.store(name, tensors)
    loaded = cache.load(name)
    assert loaded is not None and all(torch.equal(loaded[key], tensors[key]) for key in tensors)
    assert [path.name for path in folder.iterdir()] == [f"{name}.safetensors"]


def test_keys_differ_when_words_are_cut_differently() -> None:
    assert len({cache.key("ab", "c"), cache.key("a", "bc"), cache.key("abc"), cache.key("c", "ab")}) == 4


def test_a_damaged_file_counts_as_missing_and_is_deleted(folder: Path) -> None:
    name = cache.key("a")
    cache.store(name, {"x": torch.zeros(1000)})
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:500])
    assert cache.load(name) is None and not path.exists()


def test_the_least_recently_used_file_is_deleted_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE_GB", "0.00001")  # 10 kB: two of these files, not three
    for age, name in enumerate(("first", "second")):
        cache.store(name, {"x": torch.zeros(1000)})
        os.utime(folder / f"{name}.safetensors", (age, age))
    cache.load("first")  # used just now
    cache.store("third", {"x": torch.zeros(1000)})
    assert {path.stem for path in folder.iterdir()} == {"first", "third"}


def test_one_file_larger_than_the_limit_stays_while_it_is_the_newest(folder: Path, monkeypatch) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE_GB", "0.000001")
    assert cache.store("large", {"x": torch.zeros(1000)}) and cache.load("large") is not None


def test_off_means_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE", "off")
    assert cache.folder() is None and not cache.store("a", {"x": torch.zeros(1)}) and cache.load("a") is None


def test_an_unwritable_folder_only_disables_the_cache(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("OPENJEPA_CACHE", str(tmp_path / "file"))
    assert not cache.store("a", {"x": torch.zeros(1)}) and cache.load("a") is None


def test_a_limit_that_is_not_a_number_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE_GB", "plenty")
    with pytest.raises(BadInput, match='OPENJEPA_CACHE_GB is "plenty"'):
        cache.limit()


def test_the_default_is_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENJEPA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder() == tmp_path / "openjepa"


def test_a_read_only_cache_still_loads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store("a", {"x": torch.ones(2)})
    monkeypatch.setattr(os, "utime", lambda path: (_ for _ in ()).throw(PermissionError(path)))
    loaded = cache.load("a")
    assert loaded is not None and loaded["x"].tolist() == [1, 1] and len(list(folder.iterdir())) == 1


def test_files_of_killed_processes_are_deleted_after_a_day(folder: Path) -> None:
    folder.mkdir()
    old, new = folder / ".old.safetensors.1", folder / ".new.safetensors.2"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    cache.store("a", {"x": torch.zeros(1)})
    assert not old.exists() and new.exists(), "the new one may still be being written"
