"""Every registered source keeps its promises (openjepa/checks/sources.py), and a broken promise is noticed."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor

from contracts.miniatures import WRITERS
from openjepa import checks
from openjepa.core.contracts import sources
from openjepa.core.errors import BrokenImage
from openjepa.core.types import Sample
from openjepa.data import check, digests
from openjepa.data.batches.build import open_images
from openjepa.data.crops.crop import NO_DRAWS, CropRequest
from openjepa.data.crops.evaluation import EvaluationCrop
from openjepa.data.decode.image import decode
from openjepa.data.open import open_source


@pytest.mark.parametrize("name", sources.names())
def test_a_registered_source_keeps_its_promises(name: str, tmp_path: Path) -> None:
    miniature = WRITERS[name](tmp_path / "a", 0)
    changed = WRITERS[name](tmp_path / "b", 1)
    broken = None
    if miniature.files:
        damaged = WRITERS[name](tmp_path / "c", 2)
        damaged.files[1].write_bytes(damaged.files[1].read_bytes()[:40])
        broken = (open_source(damaged.spec), 1)
    checks.source(open_source(miniature.spec), changed=open_source(changed.spec), broken=broken)


def image(index: int) -> Tensor:
    return torch.randint(256, (3, 4, 5), generator=torch.Generator().manual_seed(index), dtype=torch.uint8)


@dataclass(frozen=True)
class Good:
    number: int = 3

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, index: int) -> Sample:
        if index == 7:
            raise BrokenImage("seven.png", "not an image")
        return Sample(image(index), {"class": index % 2})

    def all_labels(self) -> dict[str, Tensor]:
        return {"class": torch.arange(self.number) % 2}

    def fingerprint(self) -> str:
        return f"good {self.number}"


class InFloats(Good):
    def __getitem__(self, index: int) -> Sample:
        return replace(super().__getitem__(index), image=image(index).float())


class Restless(Good):
    def __getitem__(self, index: int) -> Sample:
        return replace(super().__getitem__(index), image=torch.randint(256, (3, 4, 5), dtype=torch.uint8))


class Mislabelled(Good):
    def all_labels(self) -> dict[str, Tensor]:
        return {"class": torch.zeros(self.number, dtype=torch.int64)}


class WithFloatLabels(Good):
    def all_labels(self) -> dict[str, Tensor]:
        return {"class": torch.zeros(self.number)}


class Changeable(Good):
    def fingerprint(self) -> str:
        return str(torch.rand(1).item())


class Nameless(Good):
    def fingerprint(self) -> str:
        return "always the same"


@dataclass(frozen=True)
class Immobile(Good):
    convert: object = field(default_factory=lambda: lambda x: x)


class Forgetful(Good):
    def __reduce__(self):
        return Good, (self.number + 1,)


class OtherInMemory(Good):
    @property
    def images(self) -> Tensor:
        return torch.zeros(self.number, 3, 4, 5, dtype=torch.uint8)


class OtherRendered(Good):
    def render(self, indices):
        return torch.stack([image(index + 1) for index in indices]), {}


class OtherLabelsRendered(Good):
    def render(self, indices):
        return torch.stack([image(index) for index in indices]), {"class": torch.ones(len(indices), dtype=torch.int64)}


class WithoutFiles(Good):
    def path(self, index: int) -> Path:
        return Path("/nowhere") / str(index)


class WithTextPaths(Good):
    def path(self, index: int) -> str:
        return __file__


class WithRoot(Good):
    def path(self) -> str:
        return "/data/root"


class InArrays(Good):
    def __getitem__(self, index: int) -> Sample:
        return replace(super().__getitem__(index), image=image(index).numpy())


class AllAlike(Good):
    def identity(self, index: int) -> str:
        return "me"


class WithOneName(Good):
    @property
    def class_names(self) -> dict[str, tuple[str, ...]]:
        return {"class": ("cat",)}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Good(0), "the source is empty"),
        (InFloats(), r"image 0 is torch.float32 \[3, 4, 5\]; expected uint8"),
        (Restless(), "differs when it is read again"),
        (Mislabelled(), "image 1 has the labels {'class': 1}, all_labels says {'class': 0}"),
        (WithFloatLabels(), r'label "class" is torch.float32 \[3\]; expected int64 \[3\]'),
        (Changeable(), "differs when it is computed again"),
        (Immobile(), "cannot be sent to a worker process"),
        (Forgetful(), "a pickled copy has another fingerprint"),
        (OtherInMemory(), r"images\[index\] differs"),
        (OtherRendered(), r"render\(indices\) differs"),
        (OtherLabelsRendered(), r"render\(indices\) has other labels"),
        (WithoutFiles(), r"path\(index\) is not a file"),
        (WithTextPaths(), r"path\(0\) is a str; expected a pathlib.Path"),
        (WithRoot(), "path, render or identity cannot be called"),
        (InArrays(), "image 0 is a ndarray; expected a tensor"),
        (AllAlike(), "the same identity"),
        (WithOneName(), 'a class of label "class" has no name'),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Good) else "",
)
def test_a_broken_promise_is_noticed(source: Good, message: str) -> None:
    checks.source(Good(), changed=Good(4), broken=(Good(9), 7))
    with pytest.raises(AssertionError, match=message):
        checks.source(source)


class Flipped(Good):
    """Changes what it decodes, though its files are read instead."""

    def __init__(self, file: Path) -> None:
        super().__init__(1)
        object.__setattr__(self, "file", file)

    def __getitem__(self, index: int) -> Sample:
        return Sample(decode(self.file).flip(2), {"class": 0})

    def path(self, index: int) -> Path:
        return self.file


def test_a_source_of_files_that_changes_its_images_is_noticed(tmp_path: Path) -> None:
    Image.fromarray(image(0).permute(1, 2, 0).numpy()).save(tmp_path / "0.png")
    with pytest.raises(
        AssertionError, match=r"\[0\].image differs from the image in path\(0\), which is decoded instead"
    ):
        checks.source(Flipped(tmp_path / "0.png"))


class SameNames(Good):
    """Uses the names of abilities for other things."""

    path = "/data/root"
    images = ("0.png", "1.png")
    render = "always"
    identity = "mine"
    class_names = ("cat", "dog")


def test_attributes_named_like_abilities_are_no_abilities() -> None:
    source = SameNames(6)
    checks.source(source)
    crops = (EvaluationCrop((4, 4)),)
    (batch,) = open_images(source, crops).batches([CropRequest(torch.tensor([2, 0]), (NO_DRAWS,))], torch.device("cpu"))
    (same,) = open_images(Good(6), crops).batches([CropRequest(torch.tensor([2, 0]), (NO_DRAWS,))], torch.device("cpu"))
    assert torch.equal(batch.views[0], same.views[0])
    assert torch.equal(digests.digests(source), digests.digests(Good(6)))
    assert len(list(check.findings(source))) == 6


class Careless(Good):
    def __getitem__(self, index: int) -> Sample:
        if index == 7:
            raise OSError("cannot identify image file")
        return super().__getitem__(index)


def test_a_fingerprint_that_does_not_see_the_data_is_noticed() -> None:
    with pytest.raises(AssertionError, match="other data have the same fingerprint"):
        checks.source(Nameless(), changed=Nameless(4))


def test_a_broken_image_that_raises_something_else_or_nothing_is_noticed() -> None:
    with pytest.raises(AssertionError, match="raises OSError, not BrokenImage"):
        checks.source(Good(), broken=(Careless(9), 7))
    with pytest.raises(AssertionError, match="image 1 is broken, but nothing is raised"):
        checks.source(Good(), broken=(Good(), 1))
