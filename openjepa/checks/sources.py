"""What every data source promises."""

import pickle

import torch

from openjepa.core.contracts import HasFiles, HasIdentity, InMemory, NamesClasses, RendersBatches, Source
from openjepa.core.errors import BrokenImage

MOST_IMAGES = 16  # read from a large source


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
    return sorted({*range(min(number, MOST_IMAGES - 1)), number - 1})


def _check_samples(source: Source, indices: list[int]) -> None:
    for index in indices:
        image = source[index].image
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
    if isinstance(source, InMemory):
        is_same = all(torch.equal(source.images[index], image) for index, image in zip(indices, images, strict=True))
        assert is_same, "images[index] differs from [index].image"
    if isinstance(source, RendersBatches):
        rendered, labels = source.render(indices)
        assert torch.equal(rendered, torch.stack(images)), "render(indices) differs from [index].image"
        listed = source.all_labels()
        is_same = all(torch.equal(values, listed[name][indices]) for name, values in labels.items())
        assert is_same, "render(indices) has other labels than all_labels"
    if isinstance(source, HasFiles):
        assert all(source.path(index).is_file() for index in indices), "path(index) is not a file"
    if isinstance(source, HasIdentity):
        identities = {source.identity(index) for index in indices}
        assert len(identities) == len(indices), "two images have the same identity"
    if isinstance(source, NamesClasses):
        for name, words in source.class_names.items():
            assert int(source.all_labels()[name].max()) < len(words), f'a class of label "{name}" has no name'


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
