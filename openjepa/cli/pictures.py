"""`openjepa data …`: look at pictures before training on them."""

import sys

from openjepa.cli import tables
from openjepa.cli.options import AsJson


def check(source: str, *, json: AsJson = False) -> None:
    """Decode every picture and list what is broken, tiny, rotated, odd or duplicate. Exit code 1 if any is broken.

    Example: openjepa data check photos/

    Args:
        source: A folder of pictures, a list file, or a source such as cifar10:DIR.
    """
    from openjepa.data import check as checks
    from openjepa.data.open import open_source
    from openjepa.machine import console

    report = checks.check(open_source(source), spec=source, track=None if json else console.track)
    tables.check(report, as_json=json)
    if report.broken:
        sys.exit(1)


def info(source: str, *, json: AsJson = False) -> None:
    """Number, sizes, labels and fingerprint, without decoding everything.

    Example: openjepa data info photos/

    Args:
        source: A folder of pictures, a list file, or a source such as cifar10:DIR.
    """
    from openjepa.data import check as checks
    from openjepa.data.open import open_source

    tables.mapping(checks.info(open_source(source), spec=source).as_dict(), as_json=json)
