"""Source `inat18`: iNaturalist 2018 (Van Horn et al. 2018), 8,142 species, in the COCO-like files of its competition:

https://github.com/visipedia/inat_comp/tree/master/2018
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openjepa.core.contracts import SourceRequest, sources
from openjepa.core.errors import BadInput
from openjepa.data.sources import published
from openjepa.data.sources.folder import ImageFolder

KEYS = frozenset({"images", "id", "file_name", "annotations", "image_id", "category_id", "categories", "name"})


@dataclass(frozen=True)
class Listing:
    file: Path
    content: dict[str, Any]


@sources.register("inat18")
def open_inat18(request: SourceRequest) -> ImageFolder:
    """Both parts take their classes from the training file, so that they agree when a subset lacks some in one."""
    part = published.part("inat18", request.split)
    root = published.folder("inat18", request.path)
    chosen = _read(root, part)
    training = chosen if part == "train" else _read(root, "train")
    paths, categories = _images(chosen)
    published.require_images(root, paths, listed_in=chosen.file, remedy="unpack train_val2018.tar.gz there")
    number = {category: rank for rank, category in enumerate(sorted(_categories(training)))}
    unknown = sorted(set(categories) - number.keys())
    if unknown:
        raise BadInput(
            f'"{chosen.file}" has {len(unknown)} categories that "{training.file}" does not know, the first is '
            f"{unknown[0]}; expected the same {len(number)} in both, download both files again"
        )
    labels = tuple(number[category] for category in categories)
    return ImageFolder(root, paths, {"class": labels}, _class_names(training))


def _read(root: Path, part: str) -> Listing:
    file = published.find(f"{part}2018.json", [root], remedy=f"unpack {part}2018.json.tar.gz there")
    return Listing(file, published.read_json(file, keep=KEYS))


def _images(listing: Listing) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """-> path and category of each image, in the order of the file's images."""
    category_of = _annotations(listing)
    paths, categories = [], []
    for where, entry in published.entries(listing.content, "images", listing.file):
        image = published.field(entry, "id", int, where)
        if image not in category_of:
            raise BadInput(f"{where} has id {image}, which no annotation names; expected one, download the file again")
        paths.append(published.field(entry, "file_name", str, where))
        categories.append(category_of[image])
    return tuple(paths), tuple(categories)


def _annotations(listing: Listing) -> dict[int, int]:
    """Image id -> category id."""
    category_of: dict[int, int] = {}
    for where, entry in published.entries(listing.content, "annotations", listing.file):
        image = published.field(entry, "image_id", int, where)
        category = published.field(entry, "category_id", int, where)
        if category_of.setdefault(image, category) != category:
            raise BadInput(
                f"{where} says category {category} for image {image}, an earlier one says {category_of[image]}; "
                "expected one per image, download the file again"
            )
    return category_of


def _categories(listing: Listing) -> set[int]:
    if "categories" not in listing.content:
        return set(_annotations(listing).values())
    entries = published.entries(listing.content, "categories", listing.file)
    return {published.field(entry, "id", int, where) for where, entry in entries}


def _class_names(listing: Listing) -> dict[str, tuple[str, ...]]:
    """As the file has them: they were made unreadable for the competition (visipedia/inat_comp, issue 5)."""
    categories = listing.content.get("categories", [])
    named = {entry["id"]: str(entry["name"]) for entry in categories if "name" in entry}
    if not named or len(named) < len(categories):
        return {}
    return {"class": tuple(named[category] for category in sorted(named))}
