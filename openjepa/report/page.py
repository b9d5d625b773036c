"""Pieces of a page: sections, inline figures, tables. Text from outside is escaped; nothing is loaded."""

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from openjepa.report.figures.style import FAINT, INK

TEMPLATE = Path(__file__).with_name("report.html")
SVG_SETTINGS: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "openjepa", "image.composite_image": False}
NO_METADATA: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
HEAVY = 12_000  # bytes of a PNG above which a picture is embedded as JPEG
QUALITY = 90


@dataclass(frozen=True)
class Section:
    key: str  # its place in the page, #key
    title: str
    body: str  # HTML


def page(title: str, headline: str, sections: Sequence[Section], *, over: str, command: str) -> str:
    """A whole HTML file; `headline` is HTML already, `command` is what wrote it."""
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(title),
        over=escape(over),
        command=escape(command),
        headline=headline,
        links="".join(f'<a href="#{section.key}">{escape(section.title)}</a>' for section in sections),
        sections="\n".join(
            f'<section id="{section.key}"><h2>{escape(section.title)}</h2>{section.body}</section>'
            for section in sections
        ),
    )


def paragraph(text: str, kind: str = "") -> str:
    """`text` is HTML already: escape what comes from outside."""
    return f'<p class="{kind}">{text}</p>' if kind else f"<p>{text}</p>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """Cells are HTML already."""
    top = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table class="{kind}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def figure_html(figure: Figure, title: str, caption: str = "") -> str:
    """Sharp at any size, and in the page's own text colour by day and by night."""
    below = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f'<figure><div class="wide">{svg(figure, title)}</div>{below}</figure>'


def svg(figure: Figure, title: str) -> str:
    """An <svg> element whose pictures are embedded at their own resolution."""
    buffer = io.StringIO()
    with matplotlib.rc_context(SVG_SETTINGS):
        figure.savefig(buffer, format="svg", transparent=True, metadata=NO_METADATA)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor").replace(FAINT, "var(--muted)")
    text = re.sub(r' id="[a-zA-Z0-9.]+_\d+"', "", text)  # figure_1, axes_1 …: the same in every figure, and of no use
    text = re.sub(r"<image [^>]*>", _lighter, text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1)


def _lighter(match: re.Match[str]) -> str:
    """An <image>: opaque pictures are scaled smoothly and, when heavy, stored as JPEG; maps keep hard patches."""
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


def picture_uri(picture: Tensor) -> str:
    """[h, w, 3] in 0 … 1 -> a data: address."""
    image = Image.fromarray((picture.numpy() * 255).round().astype(np.uint8))
    png = _encoded(image, "png")
    return _data_uri(png, "png") if len(png) < HEAVY else _data_uri(_encoded(image, "jpeg"), "jpeg")


def _encoded(image: Image.Image, form: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **({"quality": QUALITY} if form == "jpeg" else {}))
    return buffer.getvalue()


def _data_uri(content: bytes, form: str) -> str:
    return f"data:image/{form};base64,{base64.b64encode(content).decode()}"
