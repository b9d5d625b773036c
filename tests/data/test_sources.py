"""Where images come from: folders, lists, CIFAR, idx and npz files, all written by the tests themselves."""

import gzip
import io
import os
import pickle
import struct
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from PIL import Image

from openjepa.core.contracts import HasFiles, SourceRequest, sources
from openjepa.core.errors import BadInput, BrokenImage, NoSuchSplit
from openjepa.data.open import open_source
from openjepa.data.sources import cifar
from openjepa.data.sources.arrays import ArraySource, as_images
from openjepa.data.sources.folder import ImageFolder


def draw(root: Path, *names: str) -> None:
    """Writes small images, each of its own colour."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        colour = tuple(hash_of(name)[:3])
        Image.new("RGB", (8, 6), colour).save(root / name, "PNG")


def hash_of(name: str) -> bytes:
    return np.random.default_rng(list(name.encode())).bytes(8)


def folder(root: Path, split: str = "train") -> ImageFolder:
    source = sources["folder"](SourceRequest(str(root), split))
    assert isinstance(source, ImageFolder)
    return source


def opened(name: str, path: Path, split: str = "train") -> Any:
    return sources[name](SourceRequest(str(path), split))


def test_a_flat_folder_is_unlabelled_and_sorted(tmp_path: Path) -> None:
    draw(tmp_path, "b.png", "a.png", "B.PNG", "10.png", "9.png")
    (tmp_path / "notes.txt").write_text("no image")
    source = folder(tmp_path)
    assert source.paths == ("10.png", "9.png", "B.PNG", "a.png", "b.png")
    assert source.labels == source.class_names == source[0].labels == source.all_labels() == {}
    assert source[0].image.shape == (3, 6, 8)


def test_class_folders_of_any_depth_give_labels(tmp_path: Path) -> None:
    draw(tmp_path, "dog/x/y/1.png", "cat/2.png", "dog/3.jpeg", "eel/deep/4.tiff")
    source = folder(tmp_path)
    assert source.paths == ("cat/2.png", "dog/3.jpeg", "dog/x/y/1.png", "eel/deep/4.tiff")
    assert source.labels == {"class": (0, 1, 1, 2)} and source.class_names == {"class": ("cat", "dog", "eel")}
    assert source[3].labels == {"class": 2} and source.all_labels()["class"].tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize("names", [("a.png", "cat/b.png", "dog/c.png"), ("all/a.png", "all/b.png")])
def test_stray_images_or_a_single_folder_make_no_classes(names: tuple[str, ...], tmp_path: Path) -> None:
    draw(tmp_path, *names)
    assert folder(tmp_path).labels == {}


def test_hidden_files_and_folders_are_ignored(tmp_path: Path) -> None:
    draw(tmp_path, "a.png", "._a.png", ".thumbnails/b.png", "__MACOSX/c.png", "d/.e.png")
    assert folder(tmp_path).paths == ("a.png",)


def test_links_are_followed_once_and_never_for_ever(tmp_path: Path) -> None:
    draw(tmp_path, "data/cat/a.png", "elsewhere/b.png")
    (tmp_path / "data/dog").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "data/cat/up").symlink_to(tmp_path / "data", target_is_directory=True)
    (tmp_path / "data/cat/self").symlink_to(tmp_path / "data/cat", target_is_directory=True)
    (tmp_path / "data/cat/loop.png").symlink_to(tmp_path / "data/cat/loop.png")
    source = folder(tmp_path / "data")
    assert source.paths == ("cat/a.png", "cat/loop.png", "dog/b.png") and source.labels == {"class": (0, 0, 1)}
    with pytest.raises(BrokenImage):
        source[1]
    assert len(source.fingerprint()) == 64


def test_split_folders_are_splits_and_share_their_class_numbers(tmp_path: Path) -> None:
    draw(tmp_path, "train/cat/1.png", "train/dog/2.png", "train/eel/3.png", "val/eel/4.png", "val/cat/5.png")
    (tmp_path / "annotations").mkdir()
    (tmp_path / "classes.tsv").touch()
    train, test = folder(tmp_path), folder(tmp_path, "test")
    assert train.paths == ("train/cat/1.png", "train/dog/2.png", "train/eel/3.png") and train.labels["class"] == (
        0,
        1,
        2,
    )
    assert test.paths == ("val/cat/5.png", "val/eel/4.png") and test.labels["class"] == (0, 2)
    assert train.class_names == test.class_names
    assert train.fingerprint() != test.fingerprint()


def test_test_is_preferred_to_val_as_the_test_split(tmp_path: Path) -> None:
    draw(tmp_path, "train/1.png", "val/2.png", "test/3.png", "test/4.png")
    assert [len(folder(tmp_path, split)) for split in ("train", "val", "test")] == [1, 1, 2]


def test_a_class_called_test_is_no_test_split(tmp_path: Path) -> None:
    draw(tmp_path, "control/1.png", "test/2.png")
    assert folder(tmp_path).class_names == {"class": ("control", "test")}
    with pytest.raises(NoSuchSplit, match="has no test split"):
        folder(tmp_path, "test")


def test_a_missing_split_says_which_there_are(tmp_path: Path) -> None:
    draw(tmp_path, "test/2.png")
    with pytest.raises(NoSuchSplit, match="no train split, only test"):
        folder(tmp_path)
    with pytest.raises(NoSuchSplit, match='unknown split "tset"'):
        folder(tmp_path, "tset")


def test_a_folder_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no images in folder"):
        folder(tmp_path)
    with pytest.raises(BadInput, match="does not exist"):
        folder(tmp_path / "none")
    (tmp_path / "file.txt").touch()
    with pytest.raises(BadInput, match="is a file, not a folder"):
        folder(tmp_path / "file.txt")
    with pytest.raises(BadInput, match="needs a path"):
        sources["folder"](SourceRequest())


def test_the_fingerprint_sees_names_and_sizes_but_not_the_folder(tmp_path: Path) -> None:
    draw(tmp_path / "one", "a.png", "b.png")
    draw(tmp_path / "two", "a.png", "b.png")
    before = folder(tmp_path / "one").fingerprint()
    assert before == folder(tmp_path / "two").fingerprint()
    (tmp_path / "one/a.png").write_bytes((tmp_path / "one/a.png").read_bytes() + b"\0")
    (tmp_path / "two/b.png").rename(tmp_path / "two/c.png")
    assert len({before, folder(tmp_path / "one").fingerprint(), folder(tmp_path / "two").fingerprint()}) == 3


def test_a_folder_has_files(tmp_path: Path) -> None:
    draw(tmp_path, "a.png")
    source = folder(tmp_path)
    assert isinstance(source, HasFiles) and source.path(0) == tmp_path / "a.png"


def write_list(root: Path, text: str, name: str = "list.txt") -> Path:
    (root / name).write_text(text, encoding="utf-8")
    return root / name


def test_a_list_has_comments_blank_lines_and_paths_with_spaces_and_commas(tmp_path: Path) -> None:
    names = ("a.png", "my holiday 3.png", "x, y.png", "sub/ä.png")
    draw(tmp_path, *names)
    file = write_list(tmp_path, "\ufeff# mine\n\na.png\n  my holiday 3.png \nx, y.png\r\nsub/ä.png\n")
    source = opened("list", file)
    assert source.paths == names and source.labels == {}
    assert source[1].image.shape == (3, 6, 8)


@pytest.mark.parametrize("separator", ["\t", ",", " ", " , ", "  \t"])
def test_numbers_are_labels_as_they_are(separator: str, tmp_path: Path) -> None:
    draw(tmp_path, "a b.png", "c.png")
    source = opened("list", write_list(tmp_path, f"a b.png{separator}7\nc.png{separator}0\n"))
    assert (
        source.paths == ("a b.png", "c.png") and source.labels == {"class": (7, 0)} and source[0].labels == {"class": 7}
    )


def test_words_are_numbered_alphabetically_below_a_heading(tmp_path: Path) -> None:
    draw(tmp_path, "a, b.png", "c.png")
    source = opened("list", write_list(tmp_path, 'path,label\n"a, b.png",dog\nc.png,cat\n', "list.csv"))
    assert source.labels == {"class": (1, 0)} and source.class_names == {"class": ("cat", "dog")}


def test_absolute_paths_work_in_a_list(tmp_path: Path) -> None:
    draw(tmp_path, "far/a.png")
    (tmp_path / "lists").mkdir()
    source = opened("list", write_list(tmp_path / "lists", f"{tmp_path}/far/a.png\n../far/a.png\n"))
    assert torch.equal(source[0].image, source[1].image)


def test_missing_images_are_counted_and_the_first_is_named(tmp_path: Path) -> None:
    draw(tmp_path, "a.png")
    file = write_list(tmp_path, "a.png,1\nno such.png,2\nnor this.png,3\n")
    with pytest.raises(BadInput, match=r'3 images, 2 of them do not exist: "no such.png" in line 2'):
        opened("list", file)


def test_a_list_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    draw(tmp_path, "a.png", "b.png")
    with pytest.raises(BadInput, match=r'line 2 \("b.png"\) has none'):
        opened("list", write_list(tmp_path, "a.png,1\nb.png\n"))
    with pytest.raises(BadInput, match="names no image"):
        opened("list", write_list(tmp_path, "# nothing\n"))
    with pytest.raises(NoSuchSplit, match="no test split"):
        opened("list", write_list(tmp_path, "a.png\n"), "test")
    with pytest.raises(BadInput, match="UTF-8"):
        opened("list", tmp_path / "a.png")
    with pytest.raises(BadInput, match="is not a file"):
        opened("list", tmp_path / "none.txt")


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def test_arrays_of_every_layout_become_three_channels_first() -> None:
    colour, grey = noise(5, 4, 6, 3), noise(5, 4, 6)
    expected = torch.from_numpy(colour).permute(0, 3, 1, 2)
    assert torch.equal(as_images(colour, "x"), expected)
    assert torch.equal(as_images(colour.transpose(0, 3, 1, 2), "x"), expected)
    for layout in (grey, grey[..., None], grey[:, None]):
        assert torch.equal(as_images(layout, "x"), torch.from_numpy(grey)[:, None].repeat(1, 3, 1, 1))


def test_the_fingerprint_of_arrays_sees_pixels_and_labels() -> None:
    images, labels = as_images(noise(5, 4, 6), "x"), torch.arange(5)
    source = ArraySource("x", images, {"class": labels})
    changed = images.clone()
    changed[4, 2, 3, 5] ^= 1
    prints = {
        source.fingerprint(),
        ArraySource("y", images.clone(), {"class": labels}).fingerprint(),
        ArraySource("x", changed, {"class": labels}).fingerprint(),
        ArraySource("x", images, {"class": labels.flip(0)}).fingerprint(),
    }
    assert len(prints) == 3
    assert source[3].labels == {"class": 3} and source[3].image.shape == (3, 4, 6) and len(source) == 5


def test_arrays_that_do_not_fit_together_are_refused() -> None:
    images = as_images(noise(5, 4, 6), "x")
    with pytest.raises(BadInput, match=r"expected uint8 \[S, 3, h, w\]"):
        ArraySource("x", images.float())
    with pytest.raises(BadInput, match=r"int64 \[4\]; expected int64 \[5\]"):
        ArraySource("x", images, {"class": torch.arange(4)})


def cifar_rows(name: str, stem: str, count: int = 4) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Pixels [S, 3072] and labels of one file, different for each file."""
    seed = sum(stem.encode())
    random = np.random.default_rng(seed)
    limits = {"class": 10} if name == "cifar10" else {"coarse": 20, "class": 100}
    return noise(count, 3072, seed=seed), {key: random.integers(0, limit, count) for key, limit in limits.items()}


def binary_file(name: str, stem: str) -> bytes:
    pixels, labels = cifar_rows(name, stem)
    columns = [values[:, None].astype(np.uint8) for values in labels.values()]  # coarse before fine
    return np.concatenate([*columns, pixels], axis=1).tobytes()


def pickled_file(name: str, stem: str, dump: Callable[[Any], bytes]) -> bytes:
    pixels, labels = cifar_rows(name, stem)
    keys = cifar.LABELS[name]
    return dump({b"batch_label": b"x", b"data": pixels, **{keys[k].encode(): v.tolist() for k, v in labels.items()}})


class Python2Pickler(pickle._Pickler):  # type: ignore[name-defined]
    """Writes every string as Python 2 wrote its str, as the official files have them."""

    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def save_string(self, text: str | bytes) -> None:
        data = text if isinstance(text, bytes) else text.encode("latin1")
        self.write(b"T" + struct.pack("<I", len(data)) + data)
        self.memoize(text)

    dispatch[str] = save_string
    dispatch[bytes] = save_string


def python2(content: Any) -> bytes:
    buffer = io.BytesIO()
    Python2Pickler(buffer, 2).dump(content)
    return buffer.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def python3(content: Any) -> bytes:
    return pickle.dumps(content, 2)


def cifar_files(name: str, version: str) -> dict[str, bytes]:
    stems = [stem for split in cifar.SPLITS[name].values() for stem in split]
    if version == "binary":
        files = {f"{stem}.bin": binary_file(name, stem) for stem in stems}
        names = {"fine_label_names.txt": b"apple\naquarium_fish\n", "coarse_label_names.txt": b"aquatic_mammals\n\n"}
        return files | (names if name == "cifar100" else {})
    dump = python2 if version == "python2" else python3
    meta = {b"fine_label_names": [b"apple", b"aquarium_fish"], b"coarse_label_names": [b"aquatic_mammals"]}
    return {stem: pickled_file(name, stem, dump) for stem in stems} | {"meta": dump(meta)}


def write_cifar(root: Path, name: str, version: str) -> Path:
    location = root / cifar.FOLDERS[name][version != "binary"]
    location.mkdir()
    for file, data in cifar_files(name, version).items():
        (location / file).write_bytes(data)
    return location


def write_tar(path: Path, folder: str, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def assert_is_cifar(source: Any, name: str, stems: Iterable[str]) -> None:
    parts = [cifar_rows(name, stem) for stem in stems]
    pixels = np.concatenate([pixels for pixels, _ in parts]).reshape(-1, 3, 32, 32)
    assert np.array_equal(source.images.numpy(), pixels)
    for key in parts[0][1]:
        assert source.labels[key].tolist() == np.concatenate([labels[key] for _, labels in parts]).tolist()


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
@pytest.mark.parametrize("version", ["binary", "python2", "python3"])
def test_cifar_is_the_same_from_every_official_version(name: str, version: str, tmp_path: Path) -> None:
    location = write_cifar(tmp_path, name, version)
    archive = write_tar(tmp_path / "any name.tar.gz", location.name, cifar_files(name, version))
    for path in (location, tmp_path, archive):
        for split, stems in cifar.SPLITS[name].items():
            assert_is_cifar(opened(name, path, split), name, stems)


def test_a_downloaded_cifar_archive_is_found_in_its_folder(tmp_path: Path) -> None:
    write_tar(tmp_path / "cifar-100-python.tar.gz", "cifar-100-python", cifar_files("cifar100", "python2"))
    assert_is_cifar(opened("cifar100", tmp_path), "cifar100", ["train"])
    assert list(tmp_path.iterdir()) == [tmp_path / "cifar-100-python.tar.gz"]  # nothing was unpacked


def test_cifar_labels_have_names(tmp_path: Path) -> None:
    source = opened("cifar10", write_cifar(tmp_path, "cifar10", "binary"))
    assert source.class_names["class"][3] == "cat" and len(source.class_names["class"]) == 10
    names = {"coarse": ("aquatic_mammals",), "class": ("apple", "aquarium_fish")}
    for version in ("binary", "python2"):
        location = tmp_path / version
        location.mkdir()
        assert opened("cifar100", write_cifar(location, "cifar100", version)).class_names == names


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_evil_pickle_is_refused_and_not_executed(protocol: int, tmp_path: Path) -> None:
    location = write_cifar(tmp_path, "cifar100", "python2")
    trap = tmp_path / "trap"
    (location / "train").write_bytes(pickle.dumps({b"data": Evil(trap)}, protocol))
    with pytest.raises(BadInput, match=r"mkdir.*refused"):
        opened("cifar100", location)
    assert not trap.exists()
    pickle.loads((location / "train").read_bytes())
    assert trap.exists()  # the trap does work


@pytest.mark.parametrize("name", ["eval", "exec", "getattr", "__import__", "open"])
def test_no_builtin_can_be_reached_from_a_pickle(name: str) -> None:
    with pytest.raises(BadInput, match=f"builtins.{name}"):
        cifar.ArrayUnpickler(io.BytesIO(f"cbuiltins\n{name}\n.".encode())).load()


def test_only_latin1_is_an_encoding_in_a_pickle() -> None:
    assert cifar.ArrayUnpickler(io.BytesIO(pickle.dumps(b"\xe9", 2))).load() == b"\xe9"
    with pytest.raises(BadInput, match="expected latin1"):
        cifar.ArrayUnpickler(io.BytesIO(b"c_codecs\nencode\n(Va\nVzip\ntR.")).load()


def test_damaged_cifar_files_say_so(tmp_path: Path) -> None:
    location = write_cifar(tmp_path, "cifar10", "binary")
    (location / "data_batch_3.bin").write_bytes((location / "data_batch_3.bin").read_bytes()[:-1])
    with pytest.raises(BadInput, match=r"data_batch_3.bin has 12291 bytes, not a multiple of 3073"):
        opened("cifar10", location)
    (location / "data_batch_3.bin").unlink()
    with pytest.raises(BadInput, match="has no file data_batch_3"):
        opened("cifar10", location)
    location = write_cifar(tmp_path, "cifar100", "python2")
    whole = (location / "train").read_bytes()
    for damaged in (b"", whole[:100], whole[:-2000], b"\x80\x02]q\x00.", python2({b"data": [1]}), b"hello"):
        (location / "train").write_bytes(damaged)
        with pytest.raises(BadInput, match="train"):
            opened("cifar100", location)


def test_a_damaged_cifar_archive_says_so(tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "a.tar.gz", "cifar-10-batches-bin", cifar_files("cifar10", "binary"))
    archive.write_bytes(archive.read_bytes()[:2000])
    with pytest.raises(BadInput, match="cannot read"):
        opened("cifar10", archive)


def test_cifar_without_a_usable_path_or_split_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="needs an existing folder or archive"):
        sources["cifar10"](SourceRequest())
    with pytest.raises(NoSuchSplit, match="train and test"):
        opened("cifar10", tmp_path, "val")
    with pytest.raises(BadInput, match="has no file data_batch_1"):
        opened("cifar10", tmp_path)


def test_cifar_may_also_be_an_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "cifar10.npz", x_train=noise(4, 32, 32, 3), y_train=np.arange(4)[:, None])
    assert opened("cifar10", tmp_path / "cifar10.npz").labels["class"].tolist() == [0, 1, 2, 3]


def idx_bytes(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + b"".join(struct.pack(">I", size) for size in array.shape) + array.tobytes()


def write_idx(root: Path, prefix: str = "", *, suffix: str = "-idx{}-ubyte", seed: int = 0) -> Path:
    root.mkdir(exist_ok=True)
    for split, count in (("train", 6), ("t10k", 3)):
        for kind, array in (("images", noise(count, 5, 7, seed=seed)), ("labels", np.arange(count, dtype=np.uint8))):
            data = idx_bytes(array)
            name = f"{prefix}{split}-{kind}{suffix.format(array.ndim)}"
            (root / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return root


@pytest.mark.parametrize("suffix", ["-idx{}-ubyte", "-idx{}-ubyte.gz", ".idx{}-ubyte"])
def test_idx_files_of_every_spelling_are_read(suffix: str, tmp_path: Path) -> None:
    root = write_idx(tmp_path, suffix=suffix)
    for split, count in (("train", 6), ("test", 3)):
        source = opened("idx", root, split)
        assert torch.equal(source.images[:, 1], torch.from_numpy(noise(count, 5, 7)))
        assert source.labels["class"].tolist() == list(range(count))


def test_an_idx_file_names_its_family_and_its_sisters_belong_to_it(tmp_path: Path) -> None:
    write_idx(tmp_path, "fashion-", seed=1)
    write_idx(tmp_path, "kuzushiji-", seed=2)
    write_idx(tmp_path, "kuzushiji-", seed=2, suffix="-idx{}-ubyte.gz")  # packed and unpacked are one
    with pytest.raises(BadInput, match="holds 2 files of train images"):
        opened("idx", tmp_path)
    source = opened("idx", tmp_path / "kuzushiji-train-images-idx3-ubyte", "test")
    assert torch.equal(source.images[:, 0], torch.from_numpy(noise(3, 5, 7, seed=2))) and "class" in source.labels


def test_emnist_is_turned_upright(tmp_path: Path) -> None:
    source = opened("idx", write_idx(tmp_path, "emnist-letters-"))
    assert torch.equal(source.images[:, 0], torch.from_numpy(noise(6, 5, 7)).mT)


def test_damaged_idx_files_say_so(tmp_path: Path) -> None:
    file = write_idx(tmp_path) / "train-images-idx3-ubyte"
    whole = file.read_bytes()
    damages = {
        whole[:-1]: "has 225 bytes, but its header [6, 5, 7] requires 226",
        whole[:3]: "expected 00000803",
        b"": "starts with nothing",
        idx_bytes(np.arange(6, dtype=np.uint8)): "starts with 00000801",
        gzip.compress(whole)[:-12]: "cannot read",
    }
    for data, message in damages.items():
        file.write_bytes(data)
        with pytest.raises(BadInput) as caught:
            opened("idx", tmp_path)
        assert message in str(caught.value)
    file.unlink()
    with pytest.raises(NoSuchSplit, match="no idx images for split train"):
        opened("idx", tmp_path)


def test_idx_labels_must_be_as_many_as_images(tmp_path: Path) -> None:
    (write_idx(tmp_path) / "train-labels-idx1-ubyte").write_bytes(idx_bytes(np.arange(5, dtype=np.uint8)))
    with pytest.raises(BadInput, match=r"expected int64 \[6\]"):
        opened("idx", tmp_path)


def save(path: Path, **content: Any) -> Path:
    np.savez(path, **content)
    return path


@pytest.mark.parametrize(
    ("images", "labels"), [("x_{}", "y_{}"), ("{}_images", "{}_labels")], ids=["keras", "medmnist"]
)
def test_npz_splits_are_found_by_their_keys(images: str, labels: str, tmp_path: Path) -> None:
    content: dict[str, np.ndarray] = {}
    for seed, split in enumerate(("train", "val", "test")):
        content[images.format(split)] = noise(4, 5, 6, 3, seed=seed)
        content[labels.format(split)] = np.full((4, 1), seed)
    path = save(tmp_path / "a.npz", **content)
    for seed, split in enumerate(("train", "val", "test")):
        source = opened("npz", path, split)
        assert torch.equal(source.images, torch.from_numpy(noise(4, 5, 6, 3, seed=seed)).permute(0, 3, 1, 2))
        assert source.labels["class"].tolist() == [seed] * 4


@pytest.mark.parametrize(("images", "labels"), [("images", "labels"), ("x", "y"), ("arr_0", "arr_1")])
def test_an_undivided_npz_is_the_train_split(images: str, labels: str, tmp_path: Path) -> None:
    path = save(tmp_path / "a.npz", **{images: noise(4, 5, 6), labels: np.arange(4)})
    assert opened("npz", path)[2].labels == {"class": 2}
    with pytest.raises(NoSuchSplit, match=f"has the keys {images}, {labels}; expected x_test or test_images"):
        opened("npz", path, "test")


def test_npz_without_labels_is_unlabelled_and_several_columns_are_several_labels(tmp_path: Path) -> None:
    assert opened("npz", save(tmp_path / "a.npz", images=noise(4, 5, 6))).labels == {}
    source = opened("npz", save(tmp_path / "b.npz", images=noise(4, 5, 6), labels=noise(4, 3) % 2))
    assert set(source.labels) == {"class_0", "class_1", "class_2"}


def test_float_images_in_0_to_1_are_scaled(tmp_path: Path) -> None:
    values = np.array([[[0.0, 0.2], [0.6, 1.0]]], np.float32)
    assert opened("npz", save(tmp_path / "a.npz", images=values)).images[0, 0].tolist() == [[0, 51], [153, 255]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"images": np.array([None, {}], dtype=object)}, "an object array, which would need pickle"),
        ({"images": noise(2, 4, 4), "labels": np.array(["a", None], dtype=object)}, "an object array"),
        ({"images": np.full((2, 4, 4), 1.5)}, "float images run from 1.5 to 1.5"),
        ({"images": np.full((2, 4, 4), np.nan)}, "expected 0..1"),
        ({"images": np.zeros((2, 4, 4), np.int64)}, "images are int64"),
        ({"images": noise(2, 4, 4, 4)}, "images have shape [2, 4, 4, 4]"),
        ({"images": noise(0, 4, 4)}, "images have shape [0, 4, 4]"),
        ({"images": noise(2, 4, 4), "labels": np.array([0.5, 1])}, "expected whole numbers"),
        ({"images": noise(2, 4, 4), "labels": np.array(["cat", "dog"])}, "expected whole numbers"),
        ({"images": noise(2, 4, 4), "labels": np.arange(3)}, "expected int64 [2]"),
        ({"photos": noise(2, 4, 4)}, "has the keys photos; expected x_train or"),
    ],
)
def test_npz_content_that_cannot_be_used_says_why(content: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        opened("npz", save(tmp_path / "a.npz", **content))
    assert message in str(caught.value)


def test_a_file_that_is_no_npz_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    for data in (b"", b"PK\x03\x04broken", b"hello", pickle.dumps(Evil(tmp_path / "trap"))):
        path.write_bytes(data)
        with pytest.raises(BadInput, match=r"is not a readable \.npz"):
            opened("npz", path)
    assert not (tmp_path / "trap").exists()
    with path.open("wb") as file:
        np.save(file, noise(2, 4, 4))
    with pytest.raises(BadInput, match="one bare array"):
        opened("npz", path)
    with pytest.raises(BadInput, match="needs an existing file"):
        opened("npz", tmp_path / "none.npz")


def test_existing_paths_are_recognised_by_what_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    draw(tmp_path, "images/a.png", "idx:odd/b.png")
    write_list(tmp_path, "images/a.png\n")
    write_list(tmp_path, "images/a.png,1\n", "list.csv")
    save(tmp_path / "a.npz", images=noise(4, 5, 6))
    assert [len(open_source(spec)) for spec in ("images", "list.txt", "list.csv", "a.npz")] == [1, 1, 1, 4]
    assert isinstance(open_source("folder:images"), ImageFolder)
    assert isinstance(open_source("idx:odd"), ImageFolder)  # a folder that exists wins over name:path
    assert isinstance(open_source(str(tmp_path / "idx:odd")), ImageFolder)


def test_a_name_and_a_path_open_a_registered_source(tmp_path: Path) -> None:
    assert len(open_source(f"idx:{write_idx(tmp_path)}", split="test")) == 3


def test_the_request_reaches_the_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    requests: list[SourceRequest] = []
    assert "folder" in sources
    monkeypatch.setitem(sources._parts, "spy", lambda request: requests.append(request))  # type: ignore[arg-type]
    open_source("spy:a:b", split="test", image_size=(32, 48))
    open_source("spy")
    assert requests == [SourceRequest("a:b", "test", (32, 48)), SourceRequest(None, "train", (64, 64))]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cifra10:data", 'no folder or file "cifra10:data", and no data source of that name; did you mean "cifar10"?'),
        ("zzz", "known: "),
        ("sub/imagse", 'did you mean "sub/images"?'),
        ("sub/archive.tar.gz", "is a file, but neither .npz nor a list"),
        (" ", "--data is empty"),
        ("x" * 5000, "no folder or file"),
    ],
)
def test_what_cannot_be_opened_gets_a_helpful_answer(
    spec: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    draw(tmp_path, "sub/images/a.png")
    (tmp_path / "sub/archive.tar.gz").touch()
    with pytest.raises(BadInput) as caught:
        open_source(spec)
    assert message in str(caught.value)
