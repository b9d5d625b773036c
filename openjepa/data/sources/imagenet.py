"""Source `imagenet`: ImageNet-1k (Russakovsky et al. 2015) or a part of its classes, as train and val folders.

Classes are WordNet numbers such as n01440764. Kaggle's copy keeps the folders three levels down and its validation
pictures in one heap, with the classes in a file of their own.
"""

import os
import re
from pathlib import Path

from openjepa.core.contracts import SourceRequest, sources
from openjepa.core.errors import BadInput
from openjepa.data.decode import pillow
from openjepa.data.sources import published
from openjepa.data.sources.folder import ImageFolder

ROOTS = ("", "ILSVRC/Data/CLS-LOC", "Data/CLS-LOC")  # DIR itself, Kaggle's top folder, its ILSVRC folder
SOLUTION = "LOC_val_solution.csv"
HEADING = "ImageId,PredictionString"
# A picture, its class, then boxes and further classes: ILSVRC2012_val_00048981,n03995372 85 1 499 272
SOLUTION_LINE = re.compile(r"([^,\s]+),(n[0-9]{8})(\s.*)?")
WNID = re.compile(r"n[0-9]{8}")

Labelled = list[tuple[str, str]]  # path relative to the root, WordNet number


@sources.register("imagenet")
def open_imagenet(request: SourceRequest) -> ImageFolder:
    """A class is its rank among the folders of train, also for val: a subset's numbers agree between the two."""
    part = published.part("imagenet", request.split)
    root = _root(published.folder("imagenet", request.path))
    wnids = _class_folders(root / "train")
    labelled = _labelled(root, part, wnids)
    number = {wnid: index for index, wnid in enumerate(wnids)}
    unknown = sorted({wnid for _, wnid in labelled} - number.keys())
    if unknown:
        raise BadInput(
            f'"{root / part}" has {len(unknown)} classes that "{root / "train"}" has not, the first is {unknown[0]}; '
            f"expected a part of its {len(wnids)}, so remove their pictures or add these classes to train"
        )
    labels = tuple(number[wnid] for _, wnid in labelled)
    return ImageFolder(root, tuple(path for path, _ in labelled), {"class": labels}, {"class": tuple(wnids)})


def _root(top: Path) -> Path:
    """The folder that holds train and val."""
    for place in ROOTS:
        if _class_folders(top / place / "train"):
            return top / place
    raise BadInput(
        f'"{top}" has no folder train with class folders such as n01440764, nor has {ROOTS[1]} in it; expected '
        "train/n01440764/*.JPEG and so on, so unpack each class's archive into a folder of its name"
    )


def _class_folders(place: Path) -> list[str]:
    return sorted(name for name in published.names_in(place) if WNID.fullmatch(name) and os.path.isdir(place / name))


def _picture_names(place: Path) -> list[str]:
    suffixes = pillow.extensions()
    names = (name for name in published.names_in(place) if not name.startswith("."))
    return sorted(name for name in names if os.path.splitext(name)[1].lower() in suffixes)


def _labelled(root: Path, part: str, wnids: list[str]) -> Labelled:
    folders, loose = _class_folders(root / part), _picture_names(root / part)
    if folders and loose:
        raise BadInput(
            f'"{root / part}" has {len(folders)} class folders and {len(loose)} pictures beside them, the first is '
            f'"{loose[0]}"; expected every picture in a class folder, move them'
        )
    if loose:
        return _from_solution(root, loose, wnids)
    labelled = [(f"{part}/{wnid}/{name}", wnid) for wnid in folders for name in _picture_names(root / part / wnid)]
    if not labelled:
        raise BadInput(
            f'no pictures in "{root / part}"; expected {part}/n01440764/*.JPEG and so on, unpack that part there'
        )
    return labelled


def _from_solution(root: Path, loose: list[str], wnids: list[str]) -> Labelled:
    """The validation pictures in one heap. Whoever keeps some classes only keeps the whole file with the classes:

    its lines about other classes ask for no picture.
    """
    file = _solution_file(root)
    wnid_of = _read_solution(file)
    present = {os.path.splitext(name)[0]: name for name in loose}
    unlisted = sorted(present.keys() - wnid_of.keys())
    if unlisted:
        raise BadInput(
            f'"{file}" has no line for {len(unlisted)} of {len(loose)} pictures in "{root / "val"}", the first is '
            f'"{unlisted[0]}"; expected one for each, download the file again or remove the pictures'
        )
    known = set(wnids)
    wanted = sorted(picture for picture, wnid in wnid_of.items() if wnid in known or picture in present)
    paths = [f"val/{present.get(picture, picture + '.JPEG')}" for picture in wanted]
    published.require_pictures(root, paths, listed_in=file, remedy="unpack all validation pictures there")
    return [(path, wnid_of[picture]) for path, picture in zip(paths, wanted, strict=True)]


def _solution_file(root: Path) -> Path:
    """Kaggle puts it beside ILSVRC, three levels above the pictures; we also look on the way there."""
    root = Path(os.path.abspath(root))  # a root of "." has no parents
    above = root.parents[:3] if root.name == "CLS-LOC" else ()
    for place in (root, *above):
        if (place / SOLUTION).is_file():
            return place / SOLUTION
    raise BadInput(
        f'the pictures in "{root / "val"}" lie in no class folders, and there is no {SOLUTION} that says their classes; '
        f'put that file from Kaggle into "{root}", or move each picture into a folder such as val/n01440764'
    )


def _read_solution(file: Path) -> dict[str, str]:
    """Picture without extension -> WordNet number."""
    wnid_of = {}
    for number, line in enumerate(published.read_text(file).splitlines(), start=1):
        if line.strip() in ("", HEADING):
            continue
        match = SOLUTION_LINE.fullmatch(line.strip())
        if not match:
            raise BadInput(
                f'"{file}" has "{line[:100]}" in line {number}; expected a picture, a comma and its class, such as '
                "ILSVRC2012_val_00048981,n03995372 85 1 499 272; download it again"
            )
        wnid_of[match[1]] = match[2]
    return wnid_of
