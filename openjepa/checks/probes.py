"""What every probe promises, tried on small sets of made-up features."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from openjepa.core.contracts import Probe
from openjepa.core.types import Features

NUM_CLASSES = 3


def probe(make: Callable[[], Probe]) -> None:
    """`make` is the class, if its options all have defaults, or a function without arguments.

    >>> from openjepa import checks
    >>> from openjepa.evaluation.probes.knn import NearestNeighbours
    >>> checks.probe(NearestNeighbours)
    >>> checks.probe(lambda: NearestNeighbours(k=5))
    """
    train, test = clouds(300), clouds(300, seed=1)
    fitted = _check_fit(make, train, test)
    _check_blindness(fitted, test)
    accuracy = fitted.score(test)["accuracy"]
    assert accuracy > 0.75, f"accuracy is {accuracy:.3f} on three clouds that barely overlap; expected over 0.75"
    _check_trivial(make)
    _check_chance(make)


def clouds(number: int, seed: int = 0) -> Features:
    """Three overlapping clouds, one per class; the centers are the same for every seed."""
    centers = 2 * torch.randn(NUM_CLASSES, 6, generator=torch.Generator().manual_seed(99))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(NUM_CLASSES, (number,), generator=generator)
    return Features(centers[labels] + 1.5 * torch.randn(number, 6, generator=generator), labels)


def _check_fit(make: Callable[[], Probe], train: Features, test: Features) -> Probe:
    """-> the fitted probe"""
    before = [tensor.clone() for tensor in (train.vectors, train.labels, test.vectors)]
    one = make()
    assert one.fit(train) is one, "fit does not return the probe itself"
    classes = one.predict(test)
    expected = f"expected int64 [{len(test.labels)}]"
    assert classes.shape == test.labels.shape, f"predict gives {list(classes.shape)}; {expected}"
    assert classes.dtype == torch.int64, f"predict gives {classes.dtype}; {expected}"
    assert set(classes.tolist()) <= set(range(NUM_CLASSES)), "predict gives a class that the training set does not have"
    after = (train.vectors, train.labels, test.vectors)
    is_same = all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert is_same, "the probe changes the features or labels"
    is_same = torch.equal(make().fit(train).predict(test), classes)
    assert is_same, "the same training set gives other predictions the second time"
    return one


def _check_blindness(fitted: Probe, test: Features) -> None:
    blind = Features(test.vectors, torch.zeros_like(test.labels))
    assert torch.equal(fitted.predict(blind), fitted.predict(test)), "predict looks at the labels of the test set"


def _check_trivial(make: Callable[[], Probe]) -> None:
    labels, generator = torch.arange(200) % 4, torch.Generator().manual_seed(0)
    train, test = (
        Features(F.one_hot(labels).float() + 0.01 * torch.randn(200, 4, generator=generator), labels) for _ in range(2)
    )
    accuracy = make().fit(train).score(test)["accuracy"]
    assert accuracy == 1.0, f"accuracy is {accuracy:.3f} on features that are the class itself; expected 1"


def _check_chance(make: Callable[[], Probe]) -> None:
    """Both sets are shuffled: a probe fitted to noise may send a whole cloud to one class, which could be the right one."""
    generator = torch.Generator().manual_seed(0)
    train, test = (
        Features(part.vectors, part.labels[torch.randperm(1000, generator=generator)])
        for part in (clouds(1000), clouds(1000, seed=1))
    )
    accuracy = make().fit(train).score(test)["accuracy"]
    assert abs(accuracy - 1 / NUM_CLASSES) < 0.06, (
        f"accuracy is {accuracy:.3f} on shuffled labels; expected about 0.333"
    )
