"""`openjepa data …`: look at images before training on them."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from openjepa.cli import tables
from openjepa.cli.options import AsJson

if TYPE_CHECKING:
    from openjepa.data.check import Report


def check(source: str, *, json: AsJson = False) -> None:
    """Decode every image and list what is broken, tiny, rotated, odd or duplicate. Exit code 1 if an image is broken.

    Example: openjepa data check photos/

    Args:
        source: A folder of images, a list file, or a source such as cifar10:DIR.
    """
    from openjepa.data import check as checks
    from openjepa.data.open import open_source
    from openjepa.machine import console

    report = checks.check(open_source(source), spec=source, track=None if json else console.track)
    if json:
        tables.as_json_text(report.as_dict())
    else:
        _show(report)
        _name_other_splits(source)
    if report.broken:
        sys.exit(1)


def _name_other_splits(source: str) -> None:
    """A folder with train/ and val/ opens as its training split."""
    from openjepa.core.errors import BadInput
    from openjepa.data.open import open_source

    try:
        others = open_source(source, split="test")
    except BadInput:
        return
    tables.say(f"only the training split was checked; {len(others)} test images are in a split of their own")


def info(source: str, *, json: AsJson = False) -> None:
    """Show number, sizes, labels and fingerprint, without decoding every image.

    Example: openjepa data info photos/

    Args:
        source: A folder of images, a list file, or a source such as cifar10:DIR.
    """
    from openjepa.data import check as checks
    from openjepa.data.open import open_source

    tables.mapping(checks.info(open_source(source), spec=source).as_dict(), as_json=json)


def _show(report: "Report") -> None:
    """One line for each kind of finding, with the first few names."""
    formats = ", ".join(f"{number} {name}" for name, number in report.formats.items())
    tables.say(f"{report.num_images} images, {formats}")
    for label, classes in report.labels.items():
        tables.say(
            f"label {label}: {len(classes)} classes of {min(classes.values())} to {max(classes.values())} images"
        )
    (low_h, mid_h, high_h), (low_w, mid_w, high_w) = report.height, report.width
    tables.say(f"median size {mid_h:g}×{mid_w:g}, from {low_h:g}×{low_w:g} to {high_h:g}×{high_w:g}")
    tables.say(f"decoding: {report.images_per_second:.0f} images per second and core")
    _list("broken", [f"{name} ({reason})" for name, reason in report.broken.items()])
    _list("rotated by EXIF (handled)", report.rotated)
    _list("tiny", report.tiny)
    for mode, names in report.odd_modes.items():
        _list(f"{mode} (handled)", names)
    _list("groups of identical files", [" = ".join(group) for group in report.duplicates])
    _list("identical files with different labels", [" = ".join(group) for group in report.contradictions])


def _list(title: str, names: Sequence[str], limit: int = 5) -> None:
    tables.say(f"{title}: {len(names)}")
    for name in names[:limit]:
        tables.say(f"  {name}")
    if len(names) > limit:
        tables.say(f"  … and {len(names) - limit} more (--json lists all)")
