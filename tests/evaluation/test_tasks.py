"""From --task to labelled images, and from --labels to some of them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from openjepa.core.errors import BadInput
from openjepa.data.open import open_source
from openjepa.data.sources.arrays import ArraySource
from openjepa.evaluation.tasks import labels
from openjepa.evaluation.tasks.definition import tasks
from openjepa.evaluation.tasks.lookup import available, find
from openjepa.evaluation.tasks.task import Labelled, open_task

SIZE = {"image_size": (8, 8)}


def draw(folder: Path, **classes: int) -> Path:
    """Some small images in a folder for each class."""
    for name, number in classes.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for index in range(number):
            Image.new("RGB", (8, 8), (index, 0, 0)).save(folder / name / f"{name}_{index}.png")
    return folder


def test_a_folder_without_splits_is_split_class_by_class_and_always_alike(tmp_path: Path) -> None:
    draw(tmp_path, cat=20, dog=10)
    first, second = open_task(str(tmp_path), **SIZE), open_task(f"folder:{tmp_path}", **SIZE)
    assert first.test.labels.bincount().tolist() == [4, 2] and first.train.labels.bincount().tolist() == [16, 8]
    assert torch.equal(first.test.index, second.test.index) and "drawn by us" in first.split
    assert not set(first.train.index.tolist()) & set(first.test.index.tolist())


@pytest.mark.parametrize("test_folder", ["val", "test", "validation"])
def test_train_and_val_folders_are_the_split(tmp_path: Path, test_folder: str) -> None:
    draw(tmp_path / "train", cat=3, dog=4)
    draw(tmp_path / test_folder, cat=2, dog=1)
    task = open_task(str(tmp_path), **SIZE)
    assert task.split == "the data set's own"
    assert task.train.labels.tolist() == [0] * 3 + [1] * 4 and task.test.labels.tolist() == [0, 0, 1]


def test_class_numbers_may_have_gaps(tmp_path: Path) -> None:
    pixels = np.zeros((20, 8, 8, 3), np.uint8)
    np.savez(tmp_path / "a.npz", images=pixels, labels=np.array([7, 1000] * 10))
    task = open_task(str(tmp_path / "a.npz"), **SIZE)
    assert task.num_classes == 2 and set(task.train.labels.tolist()) == {0, 1}


def test_fewer_images_are_balanced_and_always_the_same(tmp_path: Path) -> None:
    draw(tmp_path, cat=40, dog=20, eel=20)
    task, again = (open_task(str(tmp_path), **SIZE, num_train=9, num_test=6) for _ in range(2))
    assert task.train.labels.bincount().tolist() == [3, 3, 3] and task.test.labels.bincount().tolist() == [2, 2, 2]
    assert torch.equal(task.train.index, again.train.index)


BAD_TASKS = {
    "a misspelt task": ("scenes-cuont", 'unknown task "scenes-cuont"; did you mean "scenes-count"?'),
    "a misspelt published task": ("cifr10", 'did you mean "cifar10"?'),
    "a folder that is not there": ("folder:no/such", 'folder "no/such" does not exist'),
    "a path that is not there": ("no/such", 'no task and no folder "no/such"'),
    "a published task without its data": ("imagenet1k", "write imagenet1k:DIR"),
    "a published task with a wrong folder": ("clevr-count:no/such", "no/such"),
    "a folder task without a folder": ("folder", "write folder:DIR"),
}


@pytest.mark.parametrize("case", BAD_TASKS)
def test_a_task_that_cannot_be_opened_is_said_in_one_sentence(case: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec, expected = BAD_TASKS[case]
    with pytest.raises(BadInput) as error:
        open_task(spec, **SIZE)
    assert expected in str(error.value) and "\n" not in str(error.value)


def test_one_class_only_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.zeros((9, 8, 8, 3), np.uint8), labels=np.zeros(9, int))
    with pytest.raises(BadInput, match="has 1 class; a probe needs at least two"):
        open_task(str(tmp_path / "a.npz"), **SIZE)


def test_unlabelled_images_are_refused(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    with pytest.raises(BadInput, match='has no label "class"; it has none; a folder needs two or more sub-folders'):
        open_task(str(tmp_path), **SIZE)


def test_test_images_without_labels_are_replaced_by_validation_images(tmp_path: Path) -> None:
    """As Kaggle ships them."""
    draw(tmp_path / "train", cat=3, dog=3)
    draw(tmp_path / "val", cat=2, dog=2)
    (tmp_path / "test").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "test" / "1.png")
    assert open_task(str(tmp_path), **SIZE).test.labels.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("numbers", [{"num_train": 0}, {"num_train": -5}, {"num_test": 0}, {"num_train": 1}])
def test_too_few_images_are_refused(numbers: dict, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="num_(train|test) is"):
        open_task(str(draw(tmp_path, cat=9, dog=9)), **SIZE, **numbers)


def test_a_class_with_a_single_image_cannot_be_split(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match='class "dog" of .* has one image only'):
        open_task(str(draw(tmp_path, cat=4, dog=1)), **SIZE)


def test_a_class_that_occurs_in_the_test_set_only_is_refused(tmp_path: Path) -> None:
    draw(tmp_path / "train", cat=3, dog=4)
    draw(tmp_path / "val", cat=2, eel=1)
    with pytest.raises(BadInput, match='class "eel" of .* has test images but no training images'):
        open_task(str(tmp_path), **SIZE)


def test_data_are_found_below_a_root_under_their_usual_names(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "CLEVR_v1.0").mkdir()
    assert find("clevr-count", tmp_path)[1] == str(tmp_path / "CLEVR_v1.0")
    monkeypatch.setenv("OPENJEPA_DATA", str(tmp_path))
    assert find("clevr-dist")[1] == str(tmp_path / "CLEVR_v1.0")
    embedded = [name for name in tasks.names() if tasks[name].is_embedded]
    assert available() == sorted([*embedded, "clevr-count", "clevr-dist"])
    with pytest.raises(BadInput, match="has no places205 or Places205"):
        find("places205")


def labelled(*sizes: int) -> Labelled:
    values = torch.cat([torch.full((size,), number) for number, size in enumerate(sizes)])
    return Labelled(
        ArraySource("x", torch.zeros(len(values), 3, 8, 8, dtype=torch.uint8)), torch.arange(len(values)), values
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5/class", [5, 5, 5]),
        ("10%", [10, 10, 10]),
        ("1%", [1, 1, 1]),
        ("100%", [100, 100, 100]),
        ("80/class", [80, 80, 80]),
    ],
)
def test_a_budget_gives_every_class_the_same_number(text: str, expected: list[int]) -> None:
    train = labelled(100, 100, 100)
    rows = labels.draw(labels.parse(text), train, seed=0)
    assert train.labels[rows].bincount().tolist() == expected and len(rows.unique()) == len(rows)


def test_small_classes_give_what_they_have_and_large_ones_fill_up() -> None:
    train = labelled(100, 50, 2)
    assert train.labels[labels.draw(labels.parse("20%"), train, 0)].bincount().tolist() == [14, 14, 2]  # 30 in all
    assert train.labels[labels.draw(labels.parse("5/class"), train, 0)].bincount().tolist() == [5, 5, 2]


def test_what_does_not_divide_evenly_differs_by_one_at_most() -> None:
    train = labelled(100, 100, 100)
    counts = train.labels[labels.draw(labels.parse("3.4%"), train, 0)].bincount()  # 10 of 300
    assert sorted(counts.tolist()) == [3, 3, 4]


def test_another_seed_draws_other_images_and_the_same_seed_the_same() -> None:
    train, budget = labelled(100, 100), labels.parse("5/class")
    draws = [labels.draw(budget, train, seed).tolist() for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.parametrize("text", ["0%", "101%", "0/class", "some", "5", "-1%", "1 percent"])
def test_a_budget_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=f'--labels "{text}"'):
        labels.parse(text)


def test_fewer_labels_than_classes_are_refused() -> None:
    with pytest.raises(
        BadInput, match="is 2 labels for 3 classes; every class needs one: use 1.00% or more, or 1/class"
    ):
        labels.draw(labels.parse("0.5%"), labelled(100, 100, 100), 0)


@pytest.fixture
def listed(tmp_path: Path) -> Labelled:
    """Named as in ImageNet: class_number."""
    source = open_source(str(draw(tmp_path / "images", n01=3, n02=3)))
    return Labelled(source, torch.arange(6), source.all_labels()["class"])


@pytest.mark.parametrize("line", ["{}_{}.png", "{0}/{0}_{1}.png", "{}_{}.png 17"])
def test_a_list_in_the_published_format_chooses_its_images(listed: Labelled, tmp_path: Path, line: str) -> None:
    file = tmp_path / "1percent.txt"
    file.write_text("".join(line.format(*words) + "\n" for words in (("n02", 0), ("n01", 2), ("n01", 2))))
    budget = labels.parse(str(file))
    assert labels.draw(budget, listed, 0).tolist() == [2, 3] and not budget.is_random


BAD_LISTS = {
    "a missing image": (
        "n01_0.png\nn02_9.png\nn02_8.png\n",
        '2 of them are not among the 6 training images: "n02_9.png"',
    ),
    "an image of another folder": ("n01/n02_0.png\n", 'are not among the 6 training images: "n01/n02_0.png"'),
    "too few classes": ("n01_0.png\n", "has 1 labels, of 1 of the 2 classes only"),
    "nothing": ("\n# only a remark\n", "names no image"),
}


@pytest.mark.parametrize("case", BAD_LISTS)
def test_a_list_that_does_not_fit_is_refused(case: str, listed: Labelled, tmp_path: Path) -> None:
    text, expected = BAD_LISTS[case]
    (tmp_path / "list.txt").write_text(text)
    with pytest.raises(BadInput) as error:
        labels.draw(labels.parse(str(tmp_path / "list.txt")), listed, 0)
    assert expected in str(error.value)


def test_a_name_that_two_images_have_must_be_written_as_a_path(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "p" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "p" / name / "1.png")
    source = open_source(str(tmp_path / "p"))
    train = Labelled(source, torch.arange(2), source.all_labels()["class"])
    (tmp_path / "names.txt").write_text("1.png\n")
    (tmp_path / "paths.txt").write_text("cat/1.png\ndog/1.png\n")
    with pytest.raises(BadInput, match="matches 2 images; write its path instead"):
        labels.draw(labels.parse(str(tmp_path / "names.txt")), train, 0)
    assert labels.draw(labels.parse(str(tmp_path / "paths.txt")), train, 0).tolist() == [0, 1]


def test_arrays_have_no_names_to_list(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("n01_0.png\n")
    with pytest.raises(BadInput, match="these data are not files; use 1% or 5/class"):
        labels.draw(labels.parse(str(tmp_path / "list.txt")), labelled(3, 3), 0)
