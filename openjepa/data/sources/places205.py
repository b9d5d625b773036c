"""Source `places205`: Places205 (Zhou et al. 2014), the images of 256 × 256 and the lists published with them.

Despite their name the .csv lists have no commas: a path, a space and a class from 0 to 204.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from openjepa.core.contracts import SourceRequest, sources
from openjepa.core.errors import BadInput
from openjepa.data.sources import published
from openjepa.data.sources.folder import ImageFolder

LIST_FOLDERS = ("", "trainvalsplit_places205")  # "": DIR itself
IMAGE_FOLDERS = ("data/vision/torralba/deeplearning/images256", "images256", "")  # the first is as in the archive
CLASSES = {str(number): number for number in range(205)}
CLASS_FOLDER = re.compile(r"[a-z]/(.+)")  # sorted by first letter: a/abbey, a/apartment_building/outdoor


@dataclass(frozen=True)
class Listing:
    file: Path
    paths: tuple[str, ...]
    labels: tuple[int, ...]


@sources.register("places205")
def open_places205(request: SourceRequest) -> ImageFolder:
    part = published.part("places205", request.split)
    top = published.folder("places205", request.path)
    chosen = _read(top, part)
    training = chosen if part == "train" else _read(top, "train")
    root = _image_root(top, chosen)
    published.require_images(
        root,
        chosen.paths,
        listed_in=chosen.file,
        remedy=f'unpack imagesPlaces205_resize.tar.gz in "{top}" (or its {IMAGE_FOLDERS[1]} there)',
    )
    return ImageFolder(root, chosen.paths, {"class": chosen.labels}, _class_names(training))


def _read(top: Path, part: str) -> Listing:
    folders = [top / name for name in LIST_FOLDERS]
    file = published.find(f"{part}_places205.csv", folders, remedy="unpack trainvalsplit_places205.tar.gz there")
    paths, labels = [], []
    for number, line in enumerate(published.read_text(file).splitlines(), start=1):
        if not line.strip():
            continue
        path, _, label = line.strip().rpartition(" ")
        if not path or label not in CLASSES:
            raise BadInput(
                f'"{file}" has "{line[:100]}" in line {number}; expected a path, a space and a class from 0 to '
                f"{len(CLASSES) - 1}, such as a/abbey/gsun_0003.jpg 0; download it again"
            )
        paths.append(path)
        labels.append(CLASSES[label])
    return Listing(file, tuple(paths), tuple(labels))


def _image_root(top: Path, listing: Listing) -> Path:
    """The folder that has the first image; if none has, the first folder that exists: the error will name it."""
    folders = [top / name for name in IMAGE_FOLDERS]
    for folder in folders:
        if listing.paths and (folder / listing.paths[0]).is_file():
            return folder
    return next(folder for folder in folders if folder.is_dir())


def _class_names(training: Listing) -> dict[str, tuple[str, ...]]:
    """The lists do not name the classes, but the folders do, if each class has exactly one; otherwise no names."""
    folders = (path.rpartition("/")[0] for path in training.paths)
    pairs = sorted(set(zip(training.labels, folders, strict=True)))
    names = [match[1] for _, folder in pairs if (match := CLASS_FOLDER.fullmatch(folder))]
    if [label for label, _ in pairs] != list(range(len(pairs))) or len(set(names)) < len(pairs):
        return {}
    return {"class": tuple(names)}
