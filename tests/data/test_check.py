"""What `data check` and `data info` say about folders in which everything is wrong at once."""

import json
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image

from openjepa.data.check import check, findings, info
from openjepa.data.decode import image
from openjepa.data.open import open_source
from openjepa.data.sources.arrays import ArraySource


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    """Two classes with one specimen of each trouble."""
    random = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
    whole = Image.fromarray(random.integers(0, 256, (40, 60, 3), np.uint8))
    whole.save(tmp_path / "cat/whole.png")
    whole.convert("L").save(tmp_path / "cat/grey.png")
    whole.quantize(8).save(tmp_path / "cat/palette.gif")
    whole.convert("CMYK").save(tmp_path / "cat/cmyk.jpg")
    faint = whole.copy()
    faint.putalpha(100)
    faint.save(tmp_path / "cat/alpha.webp")
    Image.fromarray(random.integers(0, 65536, (40, 60), np.uint16)).save(tmp_path / "cat/deep.png")
    whole.crop((0, 0, 90, 20)).save(tmp_path / "dog/tiny.bmp")
    exif = Image.Exif()
    exif[0x0112] = 6
    whole.save(tmp_path / "dog/turned.jpg", exif=exif)
    (tmp_path / "dog/copy.png").write_bytes((tmp_path / "cat/whole.png").read_bytes())
    (tmp_path / "cat/again.gif").write_bytes((tmp_path / "cat/palette.gif").read_bytes())
    (tmp_path / "dog/empty.jpg").touch()
    (tmp_path / "dog/void.jpg").touch()
    (tmp_path / "dog/half.png").write_bytes((tmp_path / "cat/whole.png").read_bytes()[:3000])
    return tmp_path


def names(paths: Iterable[str]) -> set[str]:
    return {Path(path).name for path in paths}


def test_check_finds_every_trouble(messy: Path) -> None:
    report = check(open_source(str(messy)), spec="messy")
    assert report.num_images == 13 and report.spec == "messy"
    assert names(report.broken) == {"empty.jpg", "void.jpg", "half.png"}
    assert report.broken[str(messy / "dog/empty.jpg")] == "empty file"
    assert report.broken[str(messy / "dog/half.png")].startswith("truncated: ")
    assert names(report.tiny) == {"tiny.bmp"}
    assert names(report.rotated) == {"turned.jpg"}
    assert {kind: names(paths) for kind, paths in report.odd_modes.items()} == {
        "grey": {"grey.png"},
        "palette": {"palette.gif", "again.gif"},
        "CMYK": {"cmyk.jpg"},
        "alpha": {"alpha.webp"},
        "16-bit or more": {"deep.png"},
    }
    assert [names(group) for group in report.duplicates] == [{"again.gif", "palette.gif"}, {"whole.png", "copy.png"}]
    assert [names(group) for group in report.contradictions] == [{"whole.png", "copy.png"}]
    assert report.labels == {"class": {"cat": 7, "dog": 6}}
    assert report.formats == {"PNG": 4, "JPEG": 2, "GIF": 2, "WEBP": 1, "BMP": 1}
    assert report.height == (20, 40, 60) and report.width == (40, 60, 90)  # upright: the turned one is 60 × 40
    assert report.images_per_second > 0
    assert report.fingerprint == open_source(str(messy)).fingerprint()


def test_the_size_below_which_an_image_is_tiny_can_be_chosen(messy: Path) -> None:
    assert len(check(open_source(str(messy)), spec="", tiny=20).tiny) == 0
    assert len(check(open_source(str(messy)), spec="", tiny=41).tiny) == 10


def test_reports_are_plain_json(messy: Path) -> None:
    source = open_source(str(messy))
    assert json.loads(json.dumps(check(source, spec="x").as_dict()))["num_images"] == 13
    assert json.loads(json.dumps(info(source, spec="x").as_dict()))["labels"] == {"class": {"cat": 7, "dog": 6}}


def test_progress_can_be_shown(messy: Path) -> None:
    bar = Mock(side_effect=lambda items, words, total: items)
    report = check(open_source(str(messy)), spec="", track=bar)
    assert report.num_images == 13
    assert bar.call_args.args[1:] == ("checking images", 13)


def test_findings_come_in_the_order_of_the_source(messy: Path) -> None:
    source = open_source(str(messy))
    assert [finding.index for finding in findings(source)] == list(range(13))
    assert [Path(finding.name).name for finding in findings(source)][:2] == ["again.gif", "alpha.webp"]


def test_the_number_of_threads_does_not_change_the_report(messy: Path) -> None:
    source = open_source(str(messy))
    one, four = ([(f.name, f.header, f.digest, f.broken) for f in findings(source, num_threads=n)] for n in (1, 4))
    assert one == four


def test_info_decodes_nothing(messy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(image, "upright")
    report = info(open_source(str(messy)), spec="messy")
    assert report.num_images == 13 and report.labels == {"class": {"cat": 7, "dog": 6}}
    assert report.first_sizes == {"40×60": 9, "20×90": 1, "60×40": 1}  # the truncated one has a valid header


def test_an_unlabelled_folder_of_broken_images_is_still_reported(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    report = check(open_source(str(tmp_path)), spec="")
    assert report.labels == {} and report.height == (0, 0, 0) and report.images_per_second == 0
    assert list(report.broken.values()) == ["empty file"] and report.duplicates == ()


def test_arrays_are_checked_too() -> None:
    images = torch.arange(4, dtype=torch.uint8).reshape(4, 1, 1, 1).expand(4, 3, 16, 40).clone()
    images[3] = images[1]
    source = ArraySource("x", images, {"class": torch.tensor([0, 1, 1, 2])}, {"class": ("a", "b", "c", "d")})
    report = check(source, spec="x")
    assert report.duplicates == report.contradictions == (("#1", "#3"),)
    assert report.labels == {"class": {"a": 1, "b": 2, "c": 1, "d": 0}}
    assert len(report.tiny) == 4 and report.formats == {"array": 4}
    assert info(source, spec="x").first_sizes == {"16×40": 4}
