"""The report of a run: one HTML file that explains itself, opens from disk and loads nothing from elsewhere."""

from pathlib import Path

from openjepa.core.contracts import Method
from openjepa.core.errors import BadInput
from openjepa.machine import console, device
from openjepa.models.vit import VisionTransformer
from openjepa.report import overview, scores, sections
from openjepa.report import record as report_record
from openjepa.report.page import Page, Paragraph, Section, render
from openjepa.report.record import Record
from openjepa.runs.directory import RunFolder, write_text
from openjepa.weights.load import load

IMAGE_SECTIONS = (
    sections.masks_section,
    sections.attention_section,
    sections.pca_section,
    sections.predictions_section,
    sections.neighbours_section,
)


def write(run: str | Path) -> Path:
    """Writes RUN/report.html and returns its path."""
    folder = RunFolder(Path(run))
    record = report_record.read(folder)
    method = load(run)
    contents = [
        scores.section(record),
        overview.training(record),
        *image_sections(record, method),
        overview.broken(record),
        overview.config(record),
    ]
    page = Page(
        kind="OpenJEPA run report",
        title=record.name,
        headline=[overview.headline(record, method)],
        sections=[section for section in contents if section is not None],
        command="openjepa report",
    )
    write_text(folder.report, render(page))
    return folder.report


def image_sections(record: Record, method: Method) -> list[Section | None]:
    """What the encoder makes of images, or one section that says why this is missing."""
    encoder = method.encoder
    if not isinstance(encoder, VisionTransformer):
        text = f"No figures with images: the encoder of {record.config.method['name']} has no patches to show."
        return [Section("images", "Images", [Paragraph(text)])]
    try:
        shown = report_record.load_images(record.config, sections.num_images(encoder))
    except BadInput as error:
        text = f"No figures with images, because the data of this run cannot be opened: {error}."
        return [Section("images", "Images", [Paragraph(text, "warning")])]
    chosen = device.choose()
    inputs = sections.Inputs(method.to(chosen), encoder.to(chosen), shown.to(chosen))
    return [make(inputs) for make in console.track(IMAGE_SECTIONS, "drawing figures", len(IMAGE_SECTIONS))]
