"""What every data source promises."""

import pickle
from pathlib import Path

import torch
from torch import Tensor

from openjepa.core.contracts import HasFiles, Source
from openjepa.core.errors import BrokenImage
from openjepa.data.abilities import has_files, has_identity, is_in_memory, names_classes, renders_batches
from openjepa.data.decode.image import decode

MAX_IMAGES = 16  # read from a large source


def source(source: Source, *, changed: Source | None = None, broken: tuple[Source, int] | None = None) -> None:
    """`changed` is the source after its data changed; `broken` a source and the index of an image that cannot be decoded.

    >>> from openjepa import checks
    >>> from openjepa.data.open import open_source
    >>> checks.source(open_source("scenes:4"), changed=open_source("scenes:5"))
    """
    indices = _indices(source)
    _check_samples(source, indices)
    _check_labels(source, indices)
    _check_abilities(source, indices)
    _check_copy(source, indices)
    if changed is not None:
        assert source.fingerprint() != changed.fingerprint(), "other data have the same fingerprint"
    if broken is not None:
        _check_broken(*broken)


def _indices(source: Source) -> list[int]:
    number = len(source)
    assert number > 0, "the source is empty"
    return sorted({*range(min(number, MAX_IMAGES - 1)), number - 1})


def _check_samples(source: Source, indices: list[int]) -> None:
    for index in indices:
        image = source[index].image
        assert isinstance(image, Tensor), (
            f"image {index} is a {type(image).__name__}; expected a tensor, uint8 [3, h, w]"
        )
        kind = f"image {index} is {image.dtype} {list(image.shape)}; expected uint8 [3, h, w]"
        assert image.dtype == torch.uint8 and image.ndim == 3 and image.shape[0] == 3 and image.numel(), kind
        assert torch.equal(source[index].image, image), f"image {index} differs when it is read again"


def _check_labels(source: Source, indices: list[int]) -> None:
    labels = source.all_labels()
    for name, values in labels.items():
        kind = f'label "{name}" is {values.dtype} {list(values.shape)}; expected int64 [{len(source)}]'
        assert values.dtype == torch.int64 and values.shape == (len(source),), kind
    for index in indices:
        listed = {name: int(values[index]) for name, values in labels.items()}
        own = source[index].labels
        assert own == listed, f"image {index} has the labels {own}, all_labels says {listed}"


def _check_abilities(source: Source, indices: list[int]) -> None:
    """What a source can also do agrees with what it gives one by one."""
    images = [source[index].image for index in indices]
    if is_in_memory(source):
        rows = source.images
        is_same = all(torch.equal(rows[index], image) for index, image in zip(indices, images, strict=True))
        assert is_same, "images[index] differs from [index].image; images is read, [index] is not"
    listed = source.all_labels()
    if names_classes(source):
        for name, words in source.class_names.items():
            assert int(listed[name].max()) < len(words), f'a class of label "{name}" has no name'
    try:
        _check_methods(source, indices, images)
    except TypeError as error:
        raise AssertionError(
            f"path, render or identity cannot be called as openjepa/core/contracts.py says ({error}); rename the method if it "
            "does something else"
        ) from error


def _check_methods(source: Source, indices: list[int], images: list[Tensor]) -> None:
    listed = source.all_labels()
    if renders_batches(source):
        rendered, labels = source.render(indices)
        assert torch.equal(rendered, torch.stack(images)), "render(indices) differs from [index].image"
        is_same = all(torch.equal(values, listed[name][indices]) for name, values in labels.items())
        assert is_same, "render(indices) has other labels than all_labels"
    if has_files(source):
        _check_files(source, indices, images)
    if has_identity(source):
        identities = {source.identity(index) for index in indices}
        assert len(identities) == len(indices), "two images have the same identity"


def _check_files(source: HasFiles, indices: list[int], images: list[Tensor]) -> None:
    for index, image in zip(indices, images, strict=True):
        path = source.path(index)
        assert isinstance(path, Path), f"path({index}) is a {type(path).__name__}; expected a pathlib.Path"
        assert path.is_file(), "path(index) is not a file"
        assert torch.equal(decode(path), image), (
            f"[{index}].image differs from the image in path({index}), which is decoded instead; a source that changes its "
            "images must not have a method path"
        )


def _check_copy(source: Source, indices: list[int]) -> None:
    """Worker processes get a copy."""
    fingerprint = source.fingerprint()
    assert fingerprint and source.fingerprint() == fingerprint, "the fingerprint differs when it is computed again"
    try:
        copy: Source = pickle.loads(pickle.dumps(source))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise AssertionError(f"the source cannot be sent to a worker process: {error}") from error
    assert len(copy) == len(source) and copy.fingerprint() == fingerprint, "a pickled copy has another fingerprint"
    is_same = all(torch.equal(copy[index].image, source[index].image) for index in indices)
    assert is_same, "a pickled copy has other images"


def _check_broken(source: Source, index: int) -> None:
    try:
        source[index]
    except BrokenImage as error:
        assert error.path and error.reason, "BrokenImage names no path or no reason"
        again = pickle.loads(pickle.dumps(error))
        assert str(again) == str(error), "BrokenImage loses its message on the way from a worker process"
        return
    except (OSError, ValueError, RuntimeError) as error:
        raise AssertionError(f"a broken image raises {type(error).__name__}, not BrokenImage") from error
    raise AssertionError(f"image {index} is broken, but nothing is raised")
