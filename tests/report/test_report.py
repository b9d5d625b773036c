"""The report of a tiny run: one file that opens anywhere, is correct, and survives missing files."""

import base64
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import openjepa
from openjepa.core.contracts import Method
from openjepa.core.errors import BadInput
from openjepa.core.types import Batch, LossOutput, Step
from openjepa.models.sizes import SIZES
from openjepa.models.vit import VisionTransformer
from openjepa.report import attention_widget, captions, scores, sections, write
from openjepa.report import record as report_record
from openjepa.report.figures import curves
from openjepa.report.page import (
    AttentionWidget,
    Cell,
    Fold,
    Page,
    Paragraph,
    Plot,
    Section,
    Table,
    Tiles,
    render,
    render_section,
)
from openjepa.runs.directory import RunFolder, write_json

pytestmark = pytest.mark.slow

SECTIONS = ("scores", "training", "masks", "attention", "pca", "predictions", "neighbours", "config")
SCORES = [
    {
        "task": "t<1>",
        "probe": "knn",
        "representation": name,
        "accuracy": accuracy,
        "interval": [accuracy - 0.05, accuracy + 0.05],
        "chance": 0.1,
        "num_train": 4000,
        "num_test": 400,
        "leaks": {"training": 3, "pretraining": None},
    }
    for name, accuracy in (("pixels", 0.2), ("random encoder", 0.35), ("trained", 0.5))
]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors are tiny here: more threads would only wait for each other, for seconds on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two steps of training, in a folder with a nasty name."""
    folder = tmp_path_factory.mktemp("runs") / "<b>bold & co"
    settings = {
        "data": {"source": "scenes:64", "image_size": 32, "workers": 0},
        "model": {"name": "vit-nano/8"},
        "train": {"steps": 2, "batch_size": 16},
    }
    openjepa.pretrain(settings, folder)
    return folder


@pytest.fixture(scope="module")
def page(run: Path) -> str:
    path = write.write(run)
    assert path == run / "report.html"
    return path.read_text(encoding="utf-8")


@pytest.fixture
def moved(run: Path, tmp_path: Path) -> Path:
    """A copy of the run whose images are gone; quick to report on."""
    copied = tmp_path / "copied"
    shutil.copytree(run, copied, ignore=shutil.ignore_patterns("report.html", "checkpoints"))
    config = (copied / "config.yaml").read_text(encoding="utf-8")
    (copied / "config.yaml").write_text(config.replace("scenes:64", "/no/such/<folder>"), encoding="utf-8")
    return copied


def test_the_report_loads_nothing_from_elsewhere(page: str) -> None:
    assert "<link" not in page and "@import" not in page and "<iframe" not in page
    assert not re.search(r"<script[^>]*\bsrc\b", page)
    for address in re.findall(r"""(?:\bsrc|href|srcset)\s*=\s*["']([^"']*)""", page):
        assert address.startswith(("#", "data:image/")), address[:80]
    for address in re.findall(r"url\(([^)]*)\)", page):
        assert address.strip("\"'").startswith("#"), address[:80]
    without_namespaces = re.sub(r'xmlns(:xlink)?="[^"]*"', "", page)
    assert not re.search(r"https?://", without_namespaces)


def test_every_section_is_there_and_linked(page: str) -> None:
    for key in SECTIONS:
        assert f'<section id="{key}">' in page and f'<a href="#{key}">' in page
    assert 'id="broken"' not in page


def test_text_from_outside_is_escaped(page: str) -> None:
    assert "<b>bold" not in page
    assert "&lt;b&gt;bold &amp; co" in page


def test_every_part_of_a_page_escapes_hostile_text() -> None:
    bad = "</script><img src=x onerror=alert(1)>\"'&"
    figure = curves.figure([{"step": 1, "wall": 0.1, bad: 1.0}])
    parts = [
        Paragraph(bad, bad),
        Table([bad], [[bad], [Cell(bad, bad)]], bad),
        Plot(figure, bad, bad),
        Fold(bad, [bad], bad),
        Tiles([(bad, bad, bad)], [(bad, bad)]),
        AttentionWidget({"images": [bad], bad: bad}),
    ]
    page = Page(kind=bad, title=bad, headline=parts, sections=[Section(bad, bad, parts)], command=bad)
    text = render(page)
    assert "<img" not in text and "onerror=alert(1)>" not in text
    assert text.count("<script") == text.count("</script>") == 2 * 2, "of two widgets, their data and their code"
    assert text.count("&lt;/script&gt;&lt;img") > 20
    for tag in re.findall(r"<[a-z][^<>]*>", text):  # no attribute ends early
        assert "onerror" not in re.sub(r'"[^"]*"', "", tag), tag


def test_a_caption_escapes_the_values_in_it() -> None:
    assert "<b>&lt;i&gt;</b>" in captions.VERDICT.format(kind="<i>", since="", text="")


def test_ids_are_unique(page: str) -> None:
    svg_ids = re.findall(r' id="([^"]+)"', page)
    shared = {name for name in svg_ids if svg_ids.count(name) > 1}
    # Matplotlib names a clip path or a marker after its content, so equal names are equal things.
    assert all(re.fullmatch(r"(p|m|C|image)[0-9a-f_]+", name) for name in shared), shared


def test_a_run_without_evaluation_says_how_to_evaluate(page: str) -> None:
    assert "Not evaluated yet" in page and "openjepa evaluate" in page


def test_a_run_gives_the_same_figures_every_time(run: Path, page: str) -> None:
    section = sections.predictions_section(_inputs(run))
    assert section is not None and render_section(section) in page


def test_the_embedded_attention_is_the_encoders(run: Path, page: str) -> None:
    script = re.search(r'<script type="application/json" id="attention-data">(.*?)</script>', page, re.S)
    assert script is not None
    weights, peaks = decode(script[1])
    inputs = _inputs(run)
    images = inputs.shown.images[: len(weights)]
    assert weights.shape == (8, 3, 2, 16, 16)  # images, blocks, heads, queries, keys
    for block in range(3):
        true = inputs.encoder.attention(images, block)
        torch.testing.assert_close(peaks[:, block], true.amax(dim=3))
        assert ((weights[:, block] - true).abs() <= peaks[:, block, ..., None] / 255).all()


def decode(text: str) -> tuple[Tensor, Tensor]:
    """What the script of the page does: weights [B, blocks, heads, N, N] and peaks [B, blocks, heads, N]."""
    stored = json.loads(text)
    num_patches = stored["grid"][0] * stored["grid"][1]
    shape = (len(stored["images"]), len(stored["blocks"]), stored["heads"], num_patches)
    peaks = torch.tensor(np.frombuffer(base64.b64decode(stored["peaks"]), "<f4")).reshape(shape)
    shares = torch.tensor(np.frombuffer(base64.b64decode(stored["weights"]), np.uint8)).reshape(*shape, num_patches)
    return shares / 255 * peaks[..., None], peaks


@pytest.mark.parametrize(("size", "patch_size", "side"), [("nano", 8, 64), ("base", 16, 224), ("huge", 14, 448)])
def test_the_widget_keeps_to_its_limit(size: str, patch_size: int, side: int) -> None:
    with torch.device("meta"):
        encoder = VisionTransformer(SIZES[size], patch_size=patch_size, image_size=(side, side))
    blocks, num_images = attention_widget.fitting(encoder, 8)
    assert len(blocks) * num_images * SIZES[size].num_heads * encoder.grid.size**2 <= attention_widget.LIMIT
    assert blocks[-1] == SIZES[size].depth - 1
    assert (size == "huge") == (num_images == 0)


def test_scores_are_shown_beside_their_baselines(moved: Path) -> None:
    write_json(moved / "evals" / "t.json", SCORES)
    text = write.write(moved).read_text(encoding="utf-8")
    assert "t&lt;1&gt;" in text and "t<1>" not in text
    assert "<td>20.0 [15.0, 25.0]</td><td>35.0" in text and '<td><span class="best">50.0' in text
    assert '<span class="up">+15.0' in text
    assert "1 of 1" in text and "4,000 training and 400 test images" in text
    assert "Warning: 3 test images are also in the training data" in text


def test_a_score_below_random_is_marked(moved: Path) -> None:
    worse = [{**row, "accuracy": 0.3} if row["representation"] == "trained" else row for row in SCORES]
    write_json(moved / "evals" / "t.json", worse)
    text = render_section(scores.section(report_record.read(RunFolder(moved))))
    assert '<span class="best">35.0' in text and '<span class="down">−5.0' in text


def test_a_patch_dictionary_has_a_column_if_it_was_measured(moved: Path) -> None:
    measured = [*SCORES, {**SCORES[0], "representation": "patches", "accuracy": 0.62, "interval": None}]
    for rows, is_shown in ((SCORES, False), (measured, True)):
        write_json(moved / "evals" / "t.json", rows)
        text = render_section(scores.section(report_record.read(RunFolder(moved))))
        assert ("patch dictionary, %" in text) == is_shown and ('<span class="best">62.0' in text) == is_shown


def test_the_report_says_that_images_are_missing(moved: Path) -> None:
    text = write.write(moved).read_text(encoding="utf-8")
    assert "the data of this run cannot be opened" in text and "/no/such/&lt;folder&gt;" in text
    assert '<section id="training">' in text and '<section id="masks">' not in text


def test_broken_images_are_counted_and_the_first_are_named(moved: Path) -> None:
    rows = [{"path": f"{number}<x>.jpg", "reason": "truncated"} for number in range(12)]
    (moved / "broken.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    text = write.write(moved).read_text(encoding="utf-8")
    assert "replaced: 12." in text and "0&lt;x&gt;.jpg" in text and "9&lt;x&gt;.jpg" in text
    assert "10&lt;x&gt;.jpg" not in text


def test_a_method_without_a_predictor_gets_a_report_too(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = tmp_path / "plain"
    shutil.copytree(run, copied)
    method = Plain(openjepa.load(run).encoder)
    monkeypatch.setattr(write, "load", lambda _: method)
    monkeypatch.setattr(write, "IMAGE_SECTIONS", (sections.masks_section, sections.predictions_section))
    text = write.write(copied).read_text(encoding="utf-8")
    assert '<section id="masks">' not in text and '<section id="predictions">' not in text
    assert '<section id="config">' in text


class Plain(Method):
    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self._encoder = encoder

    def training_step(self, batch: Batch, step: Step) -> LossOutput:
        raise NotImplementedError

    @property
    def encoder(self) -> nn.Module:
        return self._encoder


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a run folder"):
        write.write(tmp_path)


def test_an_unreadable_evaluation_is_named(moved: Path) -> None:
    (moved / "evals").mkdir()
    (moved / "evals" / "half.json").write_text('[{"task"', encoding="utf-8")
    with pytest.raises(BadInput, match=r"half\.json"):
        write.write(moved)


def test_few_images_leave_out_what_needs_many(run: Path) -> None:
    inputs = _inputs(run)
    few = sections.Inputs(inputs.method, inputs.encoder, _first(inputs.shown, 5))
    section = sections.predictions_section(few)
    assert section is not None and "too few" in render_section(section)
    assert "position removed" not in render_section(sections.pca_section(few))
    assert "position removed" in render_section(sections.pca_section(inputs))
    assert "nearest of 5 images" in render_section(sections.neighbours_section(few))


def _inputs(run: Path) -> sections.Inputs:
    method = openjepa.load(run)
    assert isinstance(method.encoder, VisionTransformer)
    record = report_record.read(RunFolder(run))
    shown = report_record.load_images(record.config, sections.num_images(method.encoder))
    return sections.Inputs(method, method.encoder, shown)


def _first(shown: report_record.Shown, count: int) -> report_record.Shown:
    return report_record.Shown(shown.split, shown.images[:count], shown.crops[:count])
