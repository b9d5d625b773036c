"""Source `imagenet`: ImageNet-1k (Russakovsky et al. 2015) or a part of its classes, as train and val folders.

Classes are WordNet numbers such as n01440764. Kaggle's copy has the folders three levels down and its validation
images in one folder, with the classes in a file of their own.
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
# An image, its class, then boxes and further classes: ILSVRC2012_val_00048981,n03995372 85 1 499 272
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
            f"expected a part of its {len(wnids)}, so remove their images or add these classes to train"
        )
    labels = tuple(number[wnid] for _, wnid in labelled)
    return ImageFolder(root, tuple(path for path, _ in labelled), {"class": labels}, {"class": tuple(wnids)})


def _root(top: Path) -> Path:
    """The folder that holds train and val."""
    for folder in ROOTS:
        if _class_folders(top / folder / "train"):
            return top / folder
    raise BadInput(
        f'"{top}" has no folder train with class folders such as n01440764, nor has {ROOTS[1]} in it; expected '
        "train/n01440764/*.JPEG and so on, so unpack each class's archive into a folder of its name"
    )


def _class_folders(folder: Path) -> list[str]:
    return sorted(name for name in published.names_in(folder) if WNID.fullmatch(name) and os.path.isdir(folder / name))


def _image_names(folder: Path) -> list[str]:
    suffixes = pillow.extensions()
    names = (name for name in published.names_in(folder) if not name.startswith("."))
    return sorted(name for name in names if os.path.splitext(name)[1].lower() in suffixes)


def _labelled(root: Path, part: str, wnids: list[str]) -> Labelled:
    folders, loose = _class_folders(root / part), _image_names(root / part)
    if folders and loose:
        raise BadInput(
            f'"{root / part}" has {len(folders)} class folders and {len(loose)} images beside them, the first is '
            f'"{loose[0]}"; expected every image in a class folder, move them'
        )
    if loose:
        return _from_solution(root, loose, wnids)
    labelled = [(f"{part}/{wnid}/{name}", wnid) for wnid in folders for name in _image_names(root / part / wnid)]
    if not labelled:
        raise BadInput(
            f'no images in "{root / part}"; expected {part}/n01440764/*.JPEG and so on, unpack that part there'
        )
    return labelled


def _from_solution(root: Path, loose: list[str], wnids: list[str]) -> Labelled:
    """The validation images in one folder. A subset of the classes comes with the whole file of classes:

    its lines about other classes need no image.
    """
    file = _solution_file(root)
    wnid_of = _read_solution(file)
    present = {os.path.splitext(name)[0]: name for name in loose}
    unlisted = sorted(present.keys() - wnid_of.keys())
    if unlisted:
        raise BadInput(
            f'"{file}" has no line for {len(unlisted)} of {len(loose)} images in "{root / "val"}", the first is '
            f'"{unlisted[0]}"; expected one for each, download the file again or remove the images'
        )
    known = set(wnids)
    listed = sorted(image for image, wnid in wnid_of.items() if wnid in known or image in present)
    paths = [f"val/{present.get(image, image + '.JPEG')}" for image in listed]
    published.require_images(root, paths, listed_in=file, remedy="unpack all validation images there")
    return [(path, wnid_of[image]) for path, image in zip(paths, listed, strict=True)]


def _solution_file(root: Path) -> Path:
    """Kaggle puts it beside ILSVRC, three levels above the images; we also look in the folders between."""
    root = Path(os.path.abspath(root))  # a root of "." has no parents
    above = root.parents[:3] if root.name == "CLS-LOC" else ()
    for folder in (root, *above):
        if (folder / SOLUTION).is_file():
            return folder / SOLUTION
    raise BadInput(
        f'the images in "{root / "val"}" are not in class folders, and there is no {SOLUTION} that lists their classes; '
        f'put that file from Kaggle into "{root}", or move each image into a folder such as val/n01440764'
    )


def _read_solution(file: Path) -> dict[str, str]:
    """Image without extension -> WordNet number."""
    wnid_of = {}
    for number, line in enumerate(published.read_text(file).splitlines(), start=1):
        if line.strip() in ("", HEADING):
            continue
        match = SOLUTION_LINE.fullmatch(line.strip())
        if not match:
            raise BadInput(
                f'"{file}" has "{line[:100]}" in line {number}; expected an image, a comma and its class, such as '
                "ILSVRC2012_val_00048981,n03995372 85 1 499 272; download it again"
            )
        wnid_of[match[1]] = match[2]
    return wnid_of
