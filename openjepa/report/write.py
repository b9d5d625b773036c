"""The report of a run: one HTML file that explains itself, opens from disk, and loads nothing from anywhere."""

from html import escape
from pathlib import Path

from openjepa.core.contracts import Method
from openjepa.core.errors import BadInput
from openjepa.machine import console, device
from openjepa.models.vit import VisionTransformer
from openjepa.report import images, overview, scores
from openjepa.report import record as report_record
from openjepa.report.page import Section, page, paragraph
from openjepa.report.record import Record
from openjepa.runs.directory import RunFolder, write_text
from openjepa.weights.load import load

PICTURE_SECTIONS = (
    images.masks_section,
    images.attention_section,
    images.pca_section,
    images.predictions_section,
    images.neighbours_section,
)


def write(run: str | Path) -> Path:
    """Writes RUN/report.html and returns where it lies."""
    folder = RunFolder(Path(run))
    record = report_record.read(folder)
    method = load(run)
    sections = [scores.section(record), overview.training(record), *looked_at(record, method)]
    sections += [section for section in (overview.broken(record), overview.config(record)) if section is not None]
    headline = overview.headline(record, method)
    text = page(record.name, headline, sections, over="OpenJEPA run report", command="openjepa report")
    write_text(folder.report, text)
    return folder.report


def looked_at(record: Record, method: Method) -> list[Section]:
    """What the encoder makes of pictures, or one section that says why there are none."""
    encoder = method.encoder
    if not isinstance(encoder, VisionTransformer):
        reason = f"the encoder of {record.config.method['name']} has no patches to look at"
        return [Section("pictures", "Pictures", paragraph(f"No figures with pictures: {escape(reason)}."))]
    try:
        shown = report_record.load_images(record.config, images.num_pictures(encoder))
    except BadInput as error:
        text = f"No figures with pictures, because the data of this run cannot be opened: {escape(str(error))}."
        return [Section("pictures", "Pictures", paragraph(text, "warning"))]
    chosen = device.choose()
    study = images.Study(method.to(chosen), encoder.to(chosen), shown.to(chosen))
    found = [make(study) for make in console.track(PICTURE_SECTIONS, "drawing figures", len(PICTURE_SECTIONS))]
    return [section for section in found if section is not None]
