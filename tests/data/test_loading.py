"""Order, sharing, crops (against Pillow), decoded images and batches."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import runner
from openjepa.core.contracts import Source
from openjepa.core.errors import BadInput, BrokenImage
from openjepa.core.types import Augmentation, Batch, Sample
from openjepa.data.batches import workers
from openjepa.data.batches.build import open_images
from openjepa.data.batches.from_arrays import ArrayImages
from openjepa.data.batches.from_files import FileImages
from openjepa.data.batches.loader import Loader
from openjepa.data.batches.order import Order, Split
from openjepa.data.crops import batched
from openjepa.data.crops.crop import NO_DRAWS, CropDraws, Cropped, CropRequest, RandomCrop, crop_boxes, draw_crops
from openjepa.data.crops.evaluation import EvaluationCrop
from openjepa.data.open import open_source
from openjepa.data.sources.arrays import ArraySource


def test_every_image_comes_once_an_epoch_in_a_new_order() -> None:
    order = Order(num_images=12, batch_size=4, seed=0)
    epochs = [torch.cat([order.indices(step) for step in range(start, start + 3)]) for start in (0, 3)]
    for epoch in epochs:
        assert sorted(epoch.tolist()) == list(range(12))
    assert not torch.equal(*epochs)


def test_the_order_of_a_step_is_the_same_wherever_one_starts() -> None:
    walked = [Order(10, 3, seed=5).indices(step).tolist() for step in range(12)]
    assert Order(10, 3, seed=5).indices(11).tolist() == walked[11]
    assert Order(10, 3, seed=6).indices(11).tolist() != walked[11]


def test_a_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(BadInput, match="use --set train.batch_size=10 or less"):
        Order(10, 11, seed=0)


def test_rounds_and_ranks_share_a_batch_without_gap_or_overlap() -> None:
    rows = [
        row
        for accumulation_round in range(3)
        for rank in range(2)
        for row in range(12)[Split(batch_size=12, accumulate=3, rank=rank, world_size=2).rows(accumulation_round)]
    ]
    assert rows == list(range(12))
    with pytest.raises(BadInput, match="use a multiple of 6"):
        Split(batch_size=16, accumulate=3, rank=0, world_size=2)


# --- crops ---


def pillow_crop(image: np.ndarray, box: tuple[float, float, float, float], size: tuple[int, int]) -> np.ndarray:
    top, left, height, width = box
    resized = Image.fromarray(image).resize(
        (size[1], size[0]), Image.Resampling.BILINEAR, box=(left, top, left + width, top + height)
    )
    return np.asarray(resized, dtype=np.float32)


@pytest.mark.parametrize("box", [(0, 0, 40, 60), (3.5, 10.25, 20, 31.5), (5, 5, 8, 9), (0, 0, 12, 12)], ids=str)
@pytest.mark.parametrize("size", [(16, 16), (24, 12), (50, 70)], ids=str)
def test_crops_equal_pillows(box: tuple, size: tuple) -> None:
    image = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    tensor = torch.from_numpy(image).permute(2, 0, 1)[None]
    ours = batched.crop_resize(tensor, torch.tensor([box]), size)[0].permute(1, 2, 0).numpy()
    assert np.abs(ours - pillow_crop(image, box, size)).max() <= 1.01  # Pillow rounds to whole levels, twice


def test_a_flip_is_a_mirror_image() -> None:
    images = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    boxes = torch.tensor([[0.0, 0.0, 8.0, 8.0]] * 2)
    flipped = batched.crop_resize(images, boxes, (8, 8), torch.tensor([True, False]))
    assert torch.allclose(flipped[0], images[0].float().flip(-1), atol=1e-4)
    assert torch.allclose(flipped[1], images[1].float(), atol=1e-4)


def test_crop_boxes_have_the_requested_area_and_aspect() -> None:
    sizes = torch.tensor([[100, 150]]).expand(4000, 2)
    draws = draw_crops(4000, torch.Generator().manual_seed(0))
    boxes = crop_boxes(draws, sizes, scale=(0.3, 1.0), aspect=(0.75, 4 / 3))
    area, ratio = boxes[:, 2] * boxes[:, 3] / 15000, boxes[:, 3] / boxes[:, 2]
    assert area.min() >= 0.299 and ratio.min() > 0.74 and ratio.max() < 1.34
    assert (
        (boxes[:, :2] >= 0).all()
        and (boxes[:, 0] + boxes[:, 2] <= 100.01).all()
        and (boxes[:, 1] + boxes[:, 3] <= 150.01).all()
    )
    assert boxes[:, 0].max() > 30 and boxes[:, 0].min() < 1


def test_an_image_too_long_for_any_crop_gets_the_largest_centred_one() -> None:
    draws = draw_crops(8, torch.Generator().manual_seed(0))
    boxes = crop_boxes(draws, torch.tensor([[10, 1000]]).expand(8, 2), scale=(0.9, 1.0), aspect=(0.75, 4 / 3))
    expected = torch.tensor([0.0, (1000 - 40 / 3) / 2, 10.0, 40 / 3])
    assert torch.allclose(boxes, expected.expand(8, 4), atol=1e-3)


def test_both_ways_to_crop_show_the_same(tmp_path: Path) -> None:
    """A batch of arrays at once and files one by one, from the same random numbers."""
    image = (255 * torch.rand(1, 3, 5, 6, generator=torch.Generator().manual_seed(0))).byte()
    smooth = torch.nn.functional.interpolate(image.float(), size=(40, 60), mode="bicubic").clamp(0, 255).byte()
    Image.fromarray(smooth[0].permute(1, 2, 0).numpy()).save(tmp_path / "one.png")
    draws = draw_crops(8, torch.Generator().manual_seed(3))
    sources = (ArraySource("smooth", smooth), open_source(str(tmp_path)))
    by_array, by_file = (cropped(source, CROP, torch.zeros(8).long(), draws).views[0].float() for source in sources)
    assert (by_array - by_file).abs().mean() < 4, "training crops of files are whole pixels; measured 3.3"


def test_normalising_uses_imagenets_statistics() -> None:
    grey = torch.full((1, 3, 2, 2), 255 * 0.5)
    expected = torch.tensor([(0.5 - m) / s for m, s in zip(batched.MEAN, batched.STD, strict=True)])
    assert torch.allclose(batched.normalise(grey)[0, :, 0, 0], expected, atol=1e-5)


@pytest.mark.parametrize("number", [0, 1, 5, 100])
def test_normalising_bytes_in_pieces_changes_no_bit(number: int) -> None:
    images = torch.randint(0, 256, (number, 3, 64, 80), dtype=torch.uint8)
    assert torch.equal(batched.normalise(images), batched.normalise(images.float()))


# --- decoded images and batches ---


CROP = RandomCrop(size=(16, 16), scale=(0.3, 1.0), aspect=(0.75, 4 / 3), flip=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runner.make_images(tmp_path_factory.mktemp("images"), number=20)


def cropped(source: Source, crop: RandomCrop, index: Tensor, draws: CropDraws, cache: str = "none") -> Cropped:
    images = open_images(source, (crop,), cache=cache)
    return next(images.batches([CropRequest(index, (draws,))], torch.device("cpu")))


def loader(
    source, *, cache: str = "none", workers: int = 0, split: Split | None = None, max_broken: float = 0.5
) -> Loader:
    return Loader(
        images=FileImages(source, (CROP,), cache=cache, num_workers=workers),
        order=Order(len(source), 8, seed=1),
        split=split or Split(batch_size=8),
        seed=1,
        max_broken=max_broken,
        device=torch.device("cpu"),
    )


def first(batches, number: int) -> list:
    return [next(batches) for _ in range(number)]


@pytest.mark.parametrize(("cache", "workers"), [("memory", 0), ("disk", 0), ("disk", 1), ("none", 2), ("auto", 1)])
def test_batches_do_not_depend_on_workers_or_cache(folder: Path, cache: str, workers: int) -> None:
    source = open_source(str(folder))
    plain = first(loader(source).batches(0), 4)
    other = first(loader(source, cache=cache, workers=workers).batches(0), 4)
    for ours, theirs in zip(plain, other, strict=True):
        assert torch.equal(ours.images, theirs.images) and torch.equal(ours.index, theirs.index)


def test_batches_may_begin_anywhere(folder: Path) -> None:
    source = open_source(str(folder))
    walked = first(loader(source).batches(0), 5)
    assert torch.equal(first(loader(source).batches(4), 1)[0].images, walked[4].images)


def test_two_processes_and_two_rounds_see_the_parts_of_one_batch(folder: Path) -> None:
    source = open_source(str(folder))
    whole = first(loader(source).batches(3), 1)[0].images
    parts = {}
    for rank in range(2):
        batches = loader(source, split=Split(batch_size=8, accumulate=2, rank=rank, world_size=2)).batches(3)
        for accumulation_round in range(2):
            parts[accumulation_round, rank] = next(batches).images
    assert torch.allclose(torch.cat([parts[key] for key in sorted(parts)]), whole, atol=1e-5)


VIEWS = (
    Augmentation((16, 16), scale=(0.3, 1.0), jitter=(0.4, 0.4, 0.2, 0.1), blur_chance=0.5),
    Augmentation((16, 16), scale=(0.3, 1.0), jitter=(0.4, 0.4, 0.2, 0.1), blur_chance=0.5),
    Augmentation((8, 8), scale=(0.05, 0.3), grey_chance=1.0),
)


def with_views(source, split: Split, workers: int = 0) -> Loader:
    crops = tuple(RandomCrop(size=view.size, scale=view.scale, aspect=view.aspect, flip=view.flip) for view in VIEWS)
    images = FileImages(source, crops, cache="none", num_workers=workers)
    return replace(loader(source, split=split), images=images, augmentations=VIEWS)


def test_views_are_drawn_apart_and_shared_between_processes_and_rounds(folder: Path) -> None:
    source = open_source(str(folder))
    whole = first(with_views(source, Split(batch_size=8)).batches(3), 1)[0]
    assert [view.shape[2:] for view in whole.views] == [(16, 16), (16, 16), (8, 8)]
    assert not torch.allclose(whole.views[0], whole.views[1], atol=0.1), "each view has numbers of its own"
    means, stds = (torch.tensor(values)[:, None, None] for values in (batched.MEAN, batched.STD))
    small = whole.views[2] * stds + means
    assert torch.allclose(small[:, 0], small[:, 1], atol=1e-5), "only the small ones are grey by all chance"
    parts: dict[tuple[int, int], Batch] = {}
    for rank in range(2):
        batches = with_views(source, Split(batch_size=8, accumulate=2, rank=rank, world_size=2), workers=rank).batches(
            3
        )
        parts |= {(number, rank): next(batches) for number in range(2)}
    for number, view in enumerate(whole.views):
        assert torch.allclose(torch.cat([parts[key].views[number] for key in sorted(parts)]), view, atol=1e-4)


def test_a_method_without_views_gets_none(folder: Path) -> None:
    assert first(loader(open_source(str(folder))).batches(0), 1)[0].views == ()


@pytest.fixture
def folder_with_broken(tmp_path: Path) -> Path:
    folder = runner.make_images(tmp_path / "images", number=20)
    (folder / "003.png").write_bytes(b"")
    (folder / "004.png").write_bytes((folder / "005.png").read_bytes()[:200])
    return folder


@pytest.mark.parametrize("cache", ["memory", "disk", "none"])
def test_a_broken_file_is_replaced_by_the_next_valid_one_and_listed(folder_with_broken: Path, cache: str) -> None:
    draws = draw_crops(1, torch.Generator().manual_seed(0)).take(torch.zeros(4).long())
    batch = cropped(open_source(str(folder_with_broken)), CROP, torch.tensor([3, 4, 5, 6]), draws, cache)
    images = batch.views[0]
    assert torch.equal(images[0], images[2]) and torch.equal(images[1], images[2])
    assert batch.is_valid.tolist() == [False, False, True, True]
    names = {Path(path).name: reason for path, reason in batch.broken.items()}
    assert names.keys() == {"003.png", "004.png"} and names["003.png"] == "empty file"


class Holed:
    """Somebody's own source: only [index], and image 1 is broken."""

    def __init__(self, images: Tensor) -> None:
        self.all = images

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, index: int) -> Sample:
        if index == 1:
            raise BrokenImage("one", "a hole")
        return Sample(self.all[index])

    def all_labels(self) -> dict[str, Tensor]:
        return {}

    def fingerprint(self) -> str:
        return "holed"


@pytest.mark.parametrize(("cache", "workers"), [("memory", 0), ("memory", 1), ("none", 0), ("none", 1)])
def test_a_broken_image_of_any_source_is_replaced_by_the_next_valid_one_and_listed(cache: str, workers: int) -> None:
    pixels = torch.randint(0, 256, (5, 3, 20, 20), dtype=torch.uint8)
    images = ArrayImages(Holed(pixels), (CROP,), cache=cache, num_workers=workers)
    assert (images.memory is None) == (cache == "none")
    draws = draw_crops(1, torch.Generator().manual_seed(0)).take(torch.zeros(3).long())
    (batch,) = images.batches([CropRequest(torch.tensor([2, 1, 0]), (draws,))], torch.device("cpu"))
    assert torch.equal(batch.views[0][0], batch.views[0][1]) and not torch.equal(batch.views[0][0], batch.views[0][2])
    assert batch.is_valid.tolist() == [True, False, True] and batch.broken == {"one": "a hole"}


def test_rendered_images_are_never_sent_to_worker_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script without `if __name__ == "__main__"` cannot start them where processes are spawned."""
    monkeypatch.setattr(workers, "DataLoader", None)
    crop = EvaluationCrop((32, 32))
    for cache in ("none", "memory"):
        images = open_images(open_source("scenes:5"), (crop,), cache=cache, num_workers=2)
        (batch,) = images.batches([CropRequest(torch.arange(5), (NO_DRAWS,))], torch.device("cpu"))
        assert batch.views[0].shape == (5, 3, 32, 32)


FAILING = """
import torch
from openjepa.data.batches import workers

class Work:
    def __getitem__(self, item):
        if {where} and item == 3:
            raise KeyError("a bug in somebody's source")
        return item

if __name__ == "__main__":
    results = workers.each(Work(), range(1000), num_workers=2)
    for result in results:
        if result == 5:
            raise KeyError("a bug in somebody's loop")
"""


@pytest.mark.parametrize(("where", "message"), [("True", "somebody's source"), ("False", "somebody's loop")])
def test_a_bug_ends_the_process_and_its_workers(where: str, message: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(FAILING.format(where=where))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and message in done.stderr


@pytest.mark.parametrize("workers", [0, 1])
def test_too_many_broken_images_stop_with_a_message(folder_with_broken: Path, workers: int) -> None:
    source = open_source(str(folder_with_broken))
    with pytest.raises(BadInput, match=r"of 20 images cannot be decoded so far.*--set data.max_broken="):
        first(loader(source, workers=workers, max_broken=0.01).batches(0), 10)


@pytest.mark.parametrize("cache", ["memory", "none"])
def test_a_folder_of_broken_files_only_is_refused(tmp_path: Path, cache: str) -> None:
    for index in range(3):
        (tmp_path / f"{index}.jpg").write_bytes(b"not an image")
    draws = draw_crops(1, torch.Generator().manual_seed(0))
    with pytest.raises(BadInput, match="3 images in a row cannot be decoded"):
        cropped(open_source(str(tmp_path)), CROP, torch.tensor([0]), draws, cache)


def test_what_a_training_crop_needs_follows_from_scale_and_aspect() -> None:
    assert RandomCrop(size=(100, 100), scale=(0.25, 1.0), aspect=(1.0, 1.0)).min_size((1000, 1000)) == (200, 200)
    assert RandomCrop(size=(224, 224), scale=(0.3, 1.0), aspect=(0.75, 4 / 3)).min_size((50, 60)) == (50, 60), (
        "nothing is enlarged"
    )
