"""The report of a run: one HTML file that explains itself, opens from disk, and loads nothing from anywhere."""

from html import escape
from pathlib import Path
from string import Template

from openjepa.app import console, report_figures, report_record, report_scores, report_text
from openjepa.app.load import load
from openjepa.app.report_parts import Section, paragraph
from openjepa.app.report_record import Record
from openjepa.core.contracts import Method
from openjepa.core.errors import BadInput
from openjepa.engine import device
from openjepa.models.vit import VisionTransformer
from openjepa.runs.directory import RunFolder, write_text

TEMPLATE = Path(__file__).with_name("report.html")
PICTURE_SECTIONS = (
    report_figures.masks_section,
    report_figures.attention_section,
    report_figures.pca_section,
    report_figures.predictions_section,
    report_figures.neighbours_section,
)


def write(run: str | Path) -> Path:
    """Writes RUN/report.html and returns where it lies."""
    folder = RunFolder(Path(run))
    record = report_record.read(folder)
    method = load(run)
    sections = [report_scores.section(record), report_text.training(record), *looked_at(record, method)]
    sections += [section for section in (report_text.broken(record), report_text.config(record)) if section is not None]
    write_text(folder.report, page(record, method, sections))
    return folder.report


def looked_at(record: Record, method: Method) -> list[Section]:
    """What the encoder makes of pictures, or one section that says why there are none."""
    encoder = method.encoder
    if not isinstance(encoder, VisionTransformer):
        reason = f"the encoder of {record.config.method['name']} has no patches to look at"
        return [Section("pictures", "Pictures", paragraph(f"No figures with pictures: {escape(reason)}."))]
    try:
        shown = report_record.pictures(record.config, report_figures.num_pictures(encoder))
    except BadInput as error:
        text = f"No figures with pictures, because the data of this run cannot be opened: {escape(str(error))}."
        return [Section("pictures", "Pictures", paragraph(text, "warning"))]
    chosen = device.choose()
    study = report_figures.Study(method.to(chosen), encoder.to(chosen), shown.to(chosen))
    found = [make(study) for make in console.track(PICTURE_SECTIONS, "drawing figures", len(PICTURE_SECTIONS))]
    return [section for section in found if section is not None]


def page(record: Record, method: Method, sections: list[Section]) -> str:
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(record.name),
        headline=report_text.headline(record, method),
        links="".join(f'<a href="#{section.key}">{escape(section.title)}</a>' for section in sections),
        sections="\n".join(
            f'<section id="{section.key}"><h2>{escape(section.title)}</h2>{section.body}</section>'
            for section in sections
        ),
    )
