"""Published data sets in the layouts they are published in: miniature copies that the tests write themselves."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from openjepa.core.errors import BadInput, NoSuchSplit
from openjepa.data.open import open_source
from openjepa.data.sources.clevr import DISTANCE_EDGES, distance_class
from openjepa.data.sources.folder import ImageFolder

WNIDS = ("n01440764", "n02110185", "n03995372")
SOLUTION = (
    "ILSVRC2012_val_00000002,n03995372 85 1 499 272\nILSVRC2012_val_00000001,n01440764 0 0 1 1 n01440764 2 2 3 3\n"
)
NAMES = ("imagenet", "places205", "inat18", "clevr")


def opened(name: str, root: Path, split: str = "train") -> ImageFolder:
    source = open_source(f"{name}:{root}", split=split)
    assert isinstance(source, ImageFolder)
    return source


def refusal(name: str, root: Path, split: str = "train") -> str:
    """What is said to someone whose copy cannot be used."""
    with pytest.raises(BadInput) as caught:
        open_source(f"{name}:{root}", split=split)
    assert not isinstance(caught.value, NoSuchSplit)  # or evaluation would quietly test on training images
    return str(caught.value)


def draw(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (len(name), 0, 0)).save(root / name)


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


# ImageNet


def write_imagenet(root: Path, *, flat: bool = False) -> Path:
    draw(root, *(f"train/{wnid}/{wnid}_{number}.JPEG" for wnid in WNIDS for number in (26, 7)))
    folders = ("", "") if flat else ("n01440764/", "n03995372/")
    draw(root, *(f"val/{folder}ILSVRC2012_val_0000000{number}.JPEG" for number, folder in enumerate(folders, start=1)))
    return root


def test_imagenet_class_folders_are_numbered_by_train_also_for_val(tmp_path: Path) -> None:
    write_imagenet(tmp_path)
    train, val = opened("imagenet", tmp_path), opened("imagenet", tmp_path, "val")
    assert train.paths[:3] == (
        "train/n01440764/n01440764_26.JPEG",
        "train/n01440764/n01440764_7.JPEG",
        "train/n02110185/n02110185_26.JPEG",
    )
    assert train.labels == {"class": (0, 0, 1, 1, 2, 2)}
    assert val.paths == (
        "val/n01440764/ILSVRC2012_val_00000001.JPEG",
        "val/n03995372/ILSVRC2012_val_00000002.JPEG",
    )
    assert val.labels == {"class": (0, 2)} and train.class_names == val.class_names == {"class": WNIDS}
    assert train[0].image.shape == val[1].image.shape == (3, 8, 8) and val[1].labels == {"class": 2}


@pytest.mark.parametrize("given", [".", "ILSVRC", "ILSVRC/Data/CLS-LOC"])
def test_kaggles_imagenet_opens_at_each_of_its_levels(given: str, tmp_path: Path) -> None:
    write_imagenet(tmp_path / "ILSVRC/Data/CLS-LOC", flat=True)
    draw(tmp_path, "ILSVRC/Data/CLS-LOC/test/ILSVRC2012_test_00000001.JPEG")
    write(tmp_path / "LOC_val_solution.csv", "ImageId,PredictionString\n" + SOLUTION)
    train, val = opened("imagenet", tmp_path / given), opened("imagenet", tmp_path / given, "test")
    assert len(train) == 6 and train[0].image.shape == (3, 8, 8)
    assert val.paths == ("val/ILSVRC2012_val_00000001.JPEG", "val/ILSVRC2012_val_00000002.JPEG")
    assert val.labels == {"class": (0, 2)} and val.class_names == train.class_names == {"class": WNIDS}


def test_kaggles_imagenet_opens_from_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_imagenet(tmp_path / "ILSVRC/Data/CLS-LOC", flat=True)
    write(tmp_path / "LOC_val_solution.csv", SOLUTION)  # a heading is not needed
    monkeypatch.chdir(tmp_path / "ILSVRC/Data/CLS-LOC")
    assert opened("imagenet", Path("."), "val").labels == {"class": (0, 2)}


def test_an_imagenet_subset_with_the_whole_solution_file_asks_for_its_own_images_only(tmp_path: Path) -> None:
    write_imagenet(tmp_path, flat=True)
    write(tmp_path / "LOC_val_solution.csv", SOLUTION + "ILSVRC2012_val_00000003,n07753592 1 2 3 4\n")
    assert opened("imagenet", tmp_path, "val").labels == {"class": (0, 2)}
    shutil.rmtree(tmp_path / "train/n01440764")
    assert "1 classes that" in refusal("imagenet", tmp_path, "val")
    (tmp_path / "val/ILSVRC2012_val_00000001.JPEG").unlink()
    val = opened("imagenet", tmp_path, "val")
    assert val.labels == {"class": (1,)} and val.class_names == {"class": WNIDS[1:]}


def test_an_imagenet_of_one_class_is_still_labelled(tmp_path: Path) -> None:
    draw(tmp_path, "train/n01440764/n01440764_26.JPEG")
    assert opened("imagenet", tmp_path).labels == {"class": (0,)}


def test_imagenet_leaves_out_what_is_no_image(tmp_path: Path) -> None:
    write_imagenet(tmp_path)
    for name in ("train/n01440764/._n01440764_26.JPEG", "train/n01440764/notes.txt", "train/n01440764.tar"):
        (tmp_path / name).touch()
    assert len(opened("imagenet", tmp_path)) == 6


def test_imagenet_without_class_folders_says_what_was_expected(tmp_path: Path) -> None:
    assert "expected train/n01440764/*.JPEG" in refusal("imagenet", tmp_path)
    draw(tmp_path, "train/n01440764_26.JPEG")
    assert "no folder train with class folders" in refusal("imagenet", tmp_path)
    (tmp_path / "train/n01440764").mkdir()
    (tmp_path / "train/n01440764_26.JPEG").unlink()
    assert f'no images in "{tmp_path / "train"}"' in refusal("imagenet", tmp_path)
    assert f'no images in "{tmp_path / "val"}"' in refusal("imagenet", tmp_path, "val")


def test_imagenet_classes_that_train_has_not_are_named(tmp_path: Path) -> None:
    draw(write_imagenet(tmp_path), "val/n09999999/ILSVRC2012_val_00000003.JPEG")
    assert opened("imagenet", tmp_path)
    message = refusal("imagenet", tmp_path, "val")
    assert "1 classes that" in message and "the first is n09999999; expected a part of its 3" in message


def test_flat_validation_images_without_their_classes_say_what_to_do(tmp_path: Path) -> None:
    write_imagenet(tmp_path, flat=True)
    message = refusal("imagenet", tmp_path, "val")
    assert f'put that file from Kaggle into "{tmp_path}", or move each image into a folder such as' in message
    assert "there is no LOC_val_solution.csv" in message


def test_half_sorted_validation_images_are_refused(tmp_path: Path) -> None:
    draw(write_imagenet(tmp_path), "val/ILSVRC2012_val_00000003.JPEG")
    assert "2 class folders and 1 images beside them" in refusal("imagenet", tmp_path, "val")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            SOLUTION + "ILSVRC2012_val_00000003 n03995372\n",
            'has "ILSVRC2012_val_00000003 n03995372" in line 3; expected',
        ),
        (SOLUTION + "\nILSVRC2012_val_00000003,cat 1 2 3 4\n", "in line 4; expected"),
        (SOLUTION.splitlines()[0], 'no line for 1 of 2 images in "'),
        (
            SOLUTION + "ILSVRC2012_val_00000003,n03995372 1 1 1 1\n",
            'names 3 images, 1 of them do not exist, the first is "val/ILSVRC2012_val_00000003.JPEG"; expected below',
        ),
        ("", "no line for 2 of 2 images"),
    ],
)
def test_a_solution_file_that_does_not_fit_is_refused(text: str, message: str, tmp_path: Path) -> None:
    write_imagenet(tmp_path, flat=True)
    write(tmp_path / "LOC_val_solution.csv", text)
    assert message in refusal("imagenet", tmp_path, "val")


# Places205

PLACES = {
    "train": (
        "a/abbey/gsun_0003fbb4b5a3a5bb0a5d4b5a.jpg 0\n"
        "a/apartment_building/outdoor/gsun_1.jpg 2\n"
        "a/alley/gsun_2.jpg 1\n"
        "a/abbey/gsun_3.jpg 0\n"
    ),
    "val": "a/alley/gsun_9.jpg 1\na/abbey/gsun_8.jpg 0\n",
}


def write_places(root: Path, *, lists: str = "trainvalsplit_places205", images: str = "images256") -> Path:
    for part, text in PLACES.items():
        write(root / lists / f"{part}_places205.csv", text)
        draw(root / images, *(line.split()[0] for line in text.splitlines()))
    return root


@pytest.mark.parametrize("lists", ["", "trainvalsplit_places205"])
@pytest.mark.parametrize("images", ["data/vision/torralba/deeplearning/images256", "images256", ""])
def test_places_lists_and_images_are_found_where_people_put_them(lists: str, images: str, tmp_path: Path) -> None:
    write_places(tmp_path, lists=lists, images=images)
    train, val = opened("places205", tmp_path), opened("places205", tmp_path, "test")
    assert train.paths == tuple(line.split()[0] for line in PLACES["train"].splitlines())
    assert train.labels == {"class": (0, 2, 1, 0)}
    assert val.paths == ("a/alley/gsun_9.jpg", "a/abbey/gsun_8.jpg") and val.labels == {"class": (1, 0)}
    assert train.class_names == val.class_names == {"class": ("abbey", "alley", "apartment_building/outdoor")}
    assert train.root == tmp_path / images and train[1].image.shape == val[0].image.shape == (3, 8, 8)


@pytest.mark.parametrize(
    "line", ["a/abbey/gsun_7.jpg 3", "b/bar/gsun_7.jpg 0", "b/bar/gsun_7.jpg 4", "bar/gsun_7.jpg 3"]
)
def test_places_classes_without_one_folder_each_have_no_names(line: str, tmp_path: Path) -> None:
    write_places(tmp_path)
    write(tmp_path / "train_places205.csv", PLACES["train"] + line)
    draw(tmp_path / "images256", line.split()[0])
    assert opened("places205", tmp_path).class_names == {}


@pytest.mark.parametrize(
    "line", ["a/abbey/gsun_7.jpg", "a/abbey/gsun_7.jpg,3", "a/b.jpg 205", "a/b.jpg -1", "a/b.jpg ²"]
)
def test_malformed_places_lines_are_named(line: str, tmp_path: Path) -> None:
    write_places(tmp_path)
    write(tmp_path / "val_places205.csv", PLACES["val"] + line + "\n")
    message = refusal("places205", tmp_path, "val")
    assert f'"{tmp_path / "val_places205.csv"}" has "{line}" in line 3; expected a path, a space and a class' in message


def test_places_without_lists_or_images_says_so(tmp_path: Path) -> None:
    message = refusal("places205", tmp_path)
    assert "no file train_places205.csv in" in message and "unpack trainvalsplit_places205.tar.gz there" in message
    write_places(tmp_path)
    (tmp_path / "images256/a/abbey/gsun_8.jpg").unlink()
    message = refusal("places205", tmp_path, "val")
    assert 'names 2 images, 1 of them do not exist, the first is "a/abbey/gsun_8.jpg"; expected below' in message
    shutil.rmtree(tmp_path / "images256/a")
    message = refusal("places205", tmp_path)
    assert "names 4 images, 4 of them do not exist" in message and f'below "{tmp_path / "images256"}"' in message
    write(tmp_path / "train_places205.csv", "\n")
    assert "names no image" in refusal("places205", tmp_path)
    (tmp_path / "train_places205.csv").write_bytes(b"\xff\xfe")
    assert "expected UTF-8 text" in refusal("places205", tmp_path)


# iNaturalist 2018


def inat(part: str, categories: tuple[int, ...], names: tuple[str, ...] = ()) -> dict[str, Any]:
    """One image a category, annotated in the opposite order."""
    images = [
        {"id": 10 * number, "file_name": f"train_val2018/Plantae/{category}/{part}{number}.jpg", "width": 8}
        for number, category in enumerate(categories)
    ]
    annotations = [{"id": 1, "image_id": 10 * number, "category_id": c} for number, c in enumerate(categories)]
    named = [
        {"id": c, "name": n, "supercategory": "Plantae"} for c, n in zip(sorted(set(categories)), names, strict=False)
    ]
    return {"info": {}, "images": images, "annotations": annotations[::-1]} | ({"categories": named} if names else {})


def write_inat(root: Path, **parts: dict[str, Any]) -> Path:
    for part, content in parts.items():
        write(root / f"{part}2018.json", json.dumps(content))
        draw(root, *(image["file_name"] for image in content["images"]))
    return root


def test_inaturalist_keeps_the_order_and_the_numbers_of_its_files(tmp_path: Path) -> None:
    names = ("Aralia nudicaulis", "Bellis", "Cornus")
    write_inat(tmp_path, train=inat("t", (2, 0, 1, 0), names), val=inat("v", (2, 1), ("Wrong", "Names")))
    train, val = opened("inat18", tmp_path), opened("inat18", tmp_path, "test")
    assert train.paths[0] == "train_val2018/Plantae/2/t0.jpg" and train.labels == {"class": (2, 0, 1, 0)}
    assert val.paths == ("train_val2018/Plantae/2/v0.jpg", "train_val2018/Plantae/1/v1.jpg")
    assert val.labels == {"class": (2, 1)} and train.class_names == val.class_names == {"class": names}
    assert train[0].image.shape == val[0].image.shape == (3, 8, 8)


@pytest.mark.parametrize("names", [(), ("Aralia", "Bellis", "Cornus")])
def test_inaturalist_categories_with_gaps_are_numbered_by_rank(names: tuple[str, ...], tmp_path: Path) -> None:
    write_inat(tmp_path, train=inat("t", (900, 5, 77, 5), names), val=inat("v", (77,)))
    assert opened("inat18", tmp_path).labels == {"class": (2, 0, 1, 0)}
    assert opened("inat18", tmp_path, "val").labels == {"class": (1,)}
    assert opened("inat18", tmp_path, "val").class_names == ({"class": names} if names else {})


def test_inaturalist_categories_without_names_have_none(tmp_path: Path) -> None:
    content = inat("t", (0, 1), ("Aralia", "Bellis"))
    del content["categories"][1]["name"]
    assert opened("inat18", write_inat(tmp_path, train=content)).class_names == {}


def test_an_unknown_inaturalist_category_is_named(tmp_path: Path) -> None:
    write_inat(tmp_path, train=inat("t", (0, 1)), val=inat("v", (1, 7)))
    message = refusal("inat18", tmp_path, "val")
    assert "has 1 categories that" in message and "the first is 7; expected the same 2 in both" in message


def test_missing_inaturalist_files_and_images_are_named(tmp_path: Path) -> None:
    assert "no file train2018.json in" in refusal("inat18", tmp_path)
    write_inat(tmp_path, train=inat("t", (0, 1, 2)))
    (tmp_path / "train_val2018/Plantae/1/t1.jpg").unlink()
    shutil.rmtree(tmp_path / "train_val2018/Plantae/2")
    message = refusal("inat18", tmp_path)
    assert "names 3 images, 2 of them do not exist, the first is" in message
    assert f'"train_val2018/Plantae/1/t1.jpg"; expected below "{tmp_path}": unpack' in message
    assert "unpack val2018.json.tar.gz there" in refusal("inat18", tmp_path, "val")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": None}, 'train2018.json" has nothing as "images", expected a list'),
        ({"images": []}, "names no image"),
        ({"images": [{"id": 0}]}, 'images[0] has nothing as "file_name", expected a text'),
        ({"images": [{"id": True}]}, 'images[0] has True as "id", expected a whole number'),
        ({"images": [{"id": 3, "file_name": "a.jpg"}]}, "images[0] has id 3, which no annotation names"),
        ({"images": [{"id": 0, "file_name": "a\0/b.jpg"}]}, "cannot read folder"),
        ({"annotations": [{"image_id": 0, "category_id": "x"}]}, "annotations[0] has 'x' as \"category_id\""),
        ({"annotations": [7]}, 'annotations[0] has nothing as "image_id"'),
        (
            {"annotations": [{"image_id": 0, "category_id": c} for c in (1, 2)]},
            "says category 2 for image 0, an earlier",
        ),
        ({"categories": {}}, 'has {} as "categories", expected a list'),
        ({"categories": []}, "has 2 categories that"),
        ({"categories": ["x"]}, 'categories[0] has nothing as "id"'),
    ],
)
def test_inaturalist_content_that_cannot_be_used_says_where(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    write_inat(tmp_path, train=inat("t", (0, 1)))
    write(tmp_path / "train2018.json", json.dumps(inat("t", (0, 1)) | change))
    assert message in refusal("inat18", tmp_path)


# CLEVR


def scenes(part: str, *depths: list[float]) -> dict[str, Any]:
    scenes = [
        {
            "image_filename": f"CLEVR_{part}_{number:06}.png",
            "split": part,
            "relationships": {"left": [[1], []]},
            "objects": [{"shape": "cube", "pixel_coords": [166, 118, depth]} for depth in row],
        }
        for number, row in enumerate(depths)
    ]
    return {"info": {"version": "1.0"}, "scenes": scenes}


def write_clevr(root: Path, part: str, *depths: list[float]) -> Path:
    content = scenes(part, *depths)
    write(root / f"scenes/CLEVR_{part}_scenes.json", json.dumps(content))
    draw(root, *(f"images/{part}/{scene['image_filename']}" for scene in content["scenes"]))
    return root


@pytest.mark.parametrize("inside", ["", "CLEVR_v1.0"])
def test_clevr_counts_objects_and_measures_the_nearest(inside: str, tmp_path: Path) -> None:
    write_clevr(tmp_path / inside, "train", [12.5, 9.2, 11], [7.5] * 10, [10.5, 10.25, 13.0, 17.0])
    write_clevr(tmp_path / inside, "val", [9.5, 9.75, 10.0])
    train, val = opened("clevr", tmp_path), opened("clevr", tmp_path, "test")
    assert train.paths == tuple(f"images/train/CLEVR_train_00000{number}.png" for number in range(3))
    assert train.labels == {"count": (0, 7, 1), "distance": (3, 0, 5)}
    assert val.paths == ("images/val/CLEVR_val_000000.png",) and val.labels == {"count": (0,), "distance": (3,)}
    assert train[2].labels == {"count": 1, "distance": 5} and train[0].image.shape == val[0].image.shape == (3, 8, 8)
    assert train.class_names == val.class_names
    assert train.class_names["count"] == ("3", "4", "5", "6", "7", "8", "9", "10")
    assert [train.class_names["distance"][index] for index in (0, 1, 5)] == ["up to 8.0", "8.0 to 8.5", "over 10.0"]


@pytest.mark.parametrize(
    ("nearest", "label"),
    [(0.1, 0), (8.0, 0), (8.0000001, 1), (8.5, 1), (8.6, 2), (9.0, 2), (9.5, 3), (10.0, 4), (10.1, 5), (100.0, 5)],
)
def test_a_clevr_distance_on_an_edge_belongs_to_the_nearer_class(nearest: float, label: int) -> None:
    assert distance_class([100.0, nearest, 50]) == label
    slow = [k for k in range(6) if DISTANCE_EDGES[k] < nearest <= DISTANCE_EDGES[k + 1]]
    assert slow == [label]


@pytest.mark.parametrize("count", [0, 2, 11])
def test_a_clevr_image_with_too_few_or_too_many_objects_is_named(count: int, tmp_path: Path) -> None:
    write_clevr(tmp_path, "train", [9.0] * 3, [9.0] * count)
    message = refusal("clevr", tmp_path)
    assert f"scenes[1] (CLEVR_train_000001.png) has {count} objects, expected 3 to 10" in message


@pytest.mark.parametrize("depth", [0, -1.0, 100.5, float("nan"), float("inf"), "far", None, [1]])
def test_a_clevr_depth_out_of_range_or_no_number_is_refused(depth: Any, tmp_path: Path) -> None:
    write_clevr(tmp_path, "train", [9.0, depth, 8.0])
    message = refusal("clevr", tmp_path)
    assert "scenes[0] (CLEVR_train_000000.png) objects[1] has pixel_coords [166, 118, " in message
    assert "a depth over 0 and up to 100" in message


def test_missing_clevr_files_and_images_are_named(tmp_path: Path) -> None:
    message = refusal("clevr", tmp_path)
    assert "no file scenes/CLEVR_train_scenes.json in" in message and "unpack all of CLEVR_v1.0.zip there" in message
    write_clevr(tmp_path, "train", [9.0] * 3, [9.0] * 4)
    shutil.rmtree(tmp_path / "images")
    message = refusal("clevr", tmp_path)
    assert "names 2 images, 2 of them do not exist" in message and '"images/train/CLEVR_train_000000.png"' in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"scenes": [', "is not valid JSON"),
        ("", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ('{"scenes": ' + "9" * 5000 + "}", "is not valid JSON"),
        ("[1, 2]", "holds [1, 2], expected a JSON object"),
        ('{"scene": []}', 'has nothing as "scenes", expected a list'),
        ('{"scenes": [5]}', 'scenes[0] has nothing as "image_filename"'),
        ('{"scenes": [{"image_filename": "a.png"}]}', 'scenes[0] has nothing as "objects", expected a list'),
        ('{"scenes": [{"image_filename": "a.png", "objects": [1, 2, 3]}]}', '(a.png) objects[0] has nothing as "pixel'),
        ('{"scenes": []}', "names no image"),
    ],
)
def test_malformed_clevr_scenes_say_what_is_wrong(text: str, message: str, tmp_path: Path) -> None:
    write(tmp_path / "scenes/CLEVR_train_scenes.json", text)
    said = refusal("clevr", tmp_path)
    assert message in said and "CLEVR_train_scenes.json" in said and len(said) < 600


# All of them


@pytest.mark.parametrize("name", NAMES)
def test_a_layout_needs_an_existing_folder_and_a_known_split(name: str, tmp_path: Path) -> None:
    assert f'{name} needs an existing folder, got "{tmp_path / "none"}"' in refusal(name, tmp_path / "none")
    with pytest.raises(BadInput, match=f'{name} needs an existing folder, got ""; write {name}:DIR'):
        open_source(name)
    (tmp_path / "file").touch()
    assert "needs an existing folder" in refusal(name, tmp_path / "file")
    with pytest.raises(NoSuchSplit, match=f'unknown split "tset"; {name} has train and val'):
        open_source(f"{name}:{tmp_path}", split="tset")


def test_the_fingerprint_of_a_layout_sees_its_label_file(tmp_path: Path) -> None:
    roots = {name: tmp_path / name for name in NAMES}
    write_imagenet(roots["imagenet"], flat=True)
    write(roots["imagenet"] / "LOC_val_solution.csv", SOLUTION)
    write_places(roots["places205"])
    write_inat(roots["inat18"], train=inat("t", (0, 1)), val=inat("v", (0, 1)))
    write_clevr(roots["clevr"], "val", [9.0] * 3)
    before = [opened(name, roots[name], "val").fingerprint() for name in NAMES]
    assert before == [opened(name, roots[name], "test").fingerprint() for name in NAMES]
    write(roots["imagenet"] / "LOC_val_solution.csv", SOLUTION.replace("n03995372", "n02110185"))
    write(roots["places205"] / "val_places205.csv", PLACES["val"].replace(" 1", " 2"))
    write(
        roots["inat18"] / "val2018.json", json.dumps(inat("v", (0, 1))).replace('"category_id": 1', '"category_id": 0')
    )
    write(roots["clevr"] / "scenes/CLEVR_val_scenes.json", json.dumps(scenes("val", [8.5] * 3)))
    after = [opened(name, roots[name], "val").fingerprint() for name in NAMES]
    assert all(old != new for old, new in zip(before, after, strict=True))
