"""A page as data: sections made of parts, which templates/ turns into one HTML file that loads nothing.

Templates escape every string. Text that is HTML on purpose is `Markup`; `Markup(…).format(value)` escapes the value.
"""

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import matplotlib
import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from openjepa.report.figures.style import FAINT, INK

TEMPLATES = Path(__file__).with_name("templates")
SVG_SETTINGS: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "openjepa", "image.composite_image": False}
NO_METADATA: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
HEAVY = 12_000  # bytes of a PNG above which an image is embedded as JPEG
QUALITY = 90


@dataclass(frozen=True)
class Paragraph:
    template: ClassVar = "paragraph"
    text: str
    style: str = ""  # a class of style.css: note, warning


@dataclass(frozen=True)
class Cell:
    """A table cell that is more than a string."""

    text: str
    style: str = ""  # best, up, down


@dataclass(frozen=True)
class Table:
    template: ClassVar = "table"
    head: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    style: str = ""


@dataclass(frozen=True)
class Plot:
    """A figure, sharp at any size and in the page's own text colour by day and by night."""

    template: ClassVar = "plot"
    figure: Figure
    title: str  # for screen readers
    caption: str = ""


@dataclass(frozen=True)
class Fold:
    """Details that open with a click."""

    template: ClassVar = "fold"
    summary: str
    lines: Sequence[str] = ()
    code: str = ""


@dataclass(frozen=True)
class Tiles:
    template: ClassVar = "tiles"
    tiles: Sequence[tuple[str, str, str]]  # name, value, note
    facts: Sequence[tuple[str, str]]  # name, text; an empty text is left out


@dataclass(frozen=True)
class AttentionWidget:
    template: ClassVar = "attention"
    data: dict[str, Any]  # for attention.js


Part = Paragraph | Table | Plot | Fold | Tiles | AttentionWidget


@dataclass(frozen=True)
class Section:
    key: str  # the page's anchor, #key
    title: str
    parts: Sequence[Part]


@dataclass(frozen=True, kw_only=True)
class Page:
    kind: str  # above the title
    title: str
    headline: Sequence[Part]
    sections: Sequence[Section]
    command: str  # what wrote the page


def render(page: Page) -> str:
    """A whole HTML file."""
    return _templates().get_template("page.html").render(page=page)


def render_section(section: Section) -> str:
    """The HTML of one section, as it is in its page."""
    macros: Any = _templates().get_template("parts.html").module
    return str(macros.show_section(section))


@cache
def _templates() -> Environment:
    options: dict[str, Any] = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    templates = Environment(loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, **options)
    templates.filters["svg"] = svg
    return templates


def svg(figure: Figure, title: str) -> Markup:
    """An <svg> element whose images are embedded at their own resolution."""
    buffer = io.StringIO()
    with matplotlib.rc_context(SVG_SETTINGS):
        figure.savefig(buffer, format="svg", transparent=True, metadata=NO_METADATA)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor").replace(FAINT, "var(--muted)")
    text = re.sub(r' id="[a-zA-Z0-9.]+_\d+"', "", text)  # figure_1, axes_1 …: unused, and the same in every figure
    text = re.sub(r"<image [^>]*>", _lighter, text)
    return Markup(text.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1))


def _lighter(match: re.Match[str]) -> str:
    """An <image>: opaque images are scaled smoothly and, when heavy, stored as JPEG; maps keep hard patches."""
    element = match[0]
    data = re.search(r'"data:image/png;base64,([^"]+)"', element)
    assert data is not None, "matplotlib embeds images as PNG"
    png = base64.b64decode(data[1])
    with Image.open(io.BytesIO(png)) as image:
        if image.mode == "RGBA" and image.getchannel("A").getextrema()[0] != 255:
            return element
        element = re.sub(r' style="image-rendering[^"]*"', "", element)
        if len(png) < HEAVY:
            return element
        return element.replace(data[0], f'"{_data_uri(_encoded(image.convert("RGB"), "jpeg"), "jpeg")}"')


def image_uri(image: Tensor) -> str:
    """[h, w, 3] in 0 … 1 -> a data: address."""
    pixels = Image.fromarray((image.numpy() * 255).round().astype(np.uint8))
    png = _encoded(pixels, "png")
    return _data_uri(png, "png") if len(png) < HEAVY else _data_uri(_encoded(pixels, "jpeg"), "jpeg")


def _encoded(image: Image.Image, form: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **({"quality": QUALITY} if form == "jpeg" else {}))
    return buffer.getvalue()


def _data_uri(content: bytes, form: str) -> str:
    return f"data:image/{form};base64,{base64.b64encode(content).decode()}"
