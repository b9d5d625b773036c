"""The disk cache: what was stored comes back, what is damaged or too much goes, and nothing breaks when it cannot write."""

import os
from pathlib import Path

import pytest
import torch

from openjepa.core.errors import BadInput
from openjepa.machine import cache


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENJEPA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_was_stored_comes_back(place: Path) -> None:
    name = cache.key("features", "a")
    assert cache.load(name) is None
    tensors = {"x": torch.randn(3, 4).t(), "ok": torch.tensor([True, False])}
    assert cache.store(name, tensors)
    found = cache.load(name)
    assert found is not None and all(torch.equal(found[key], tensors[key]) for key in tensors)
    assert [path.name for path in place.iterdir()] == [f"{name}.safetensors"]


def test_keys_differ_when_words_are_cut_differently() -> None:
    assert len({cache.key("ab", "c"), cache.key("a", "bc"), cache.key("abc"), cache.key("c", "ab")}) == 4


def test_a_damaged_file_is_as_good_as_none_and_goes(place: Path) -> None:
    name = cache.key("a")
    cache.store(name, {"x": torch.zeros(1000)})
    (path,) = place.iterdir()
    path.write_bytes(path.read_bytes()[:500])
    assert cache.load(name) is None and not path.exists()


def test_what_was_not_used_for_longest_goes_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE_GB", "0.00001")  # 10 kB: two of these files, not three
    for age, name in enumerate(("first", "second")):
        cache.store(name, {"x": torch.zeros(1000)})
        os.utime(place / f"{name}.safetensors", (age, age))
    cache.load("first")  # used just now
    cache.store("third", {"x": torch.zeros(1000)})
    assert {path.stem for path in place.iterdir()} == {"first", "third"}


def test_one_thing_larger_than_the_limit_is_kept_while_it_is_the_newest(place: Path, monkeypatch) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE_GB", "0.000001")
    assert cache.store("large", {"x": torch.zeros(1000)}) and cache.load("large") is not None


def test_off_means_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE", "off")
    assert cache.folder() is None and not cache.store("a", {"x": torch.zeros(1)}) and cache.load("a") is None


def test_a_place_that_cannot_be_written_loses_nothing_but_the_cache(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("OPENJEPA_CACHE", str(tmp_path / "file"))
    assert not cache.store("a", {"x": torch.zeros(1)}) and cache.load("a") is None


def test_a_limit_that_is_no_number_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE_GB", "plenty")
    with pytest.raises(BadInput, match='OPENJEPA_CACHE_GB is "plenty"'):
        cache.limit()


def test_without_a_word_it_lies_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENJEPA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder() == tmp_path / "openjepa"


def test_a_cache_that_may_only_be_read_serves_all_the_same(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store("a", {"x": torch.ones(2)})
    monkeypatch.setattr(os, "utime", lambda path: (_ for _ in ()).throw(PermissionError(path)))
    found = cache.load("a")
    assert found is not None and found["x"].tolist() == [1, 1] and len(list(place.iterdir())) == 1


def test_what_killed_processes_left_goes_after_a_day(place: Path) -> None:
    place.mkdir()
    old, new = place / ".old.safetensors.1", place / ".new.safetensors.2"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    cache.store("a", {"x": torch.zeros(1)})
    assert not old.exists() and new.exists(), "the new one may still be being written"
