"""Probes against scikit-learn and hand-made cases."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from openjepa.core.contracts import probes
from openjepa.core.types import Features
from openjepa.probes.knn import NearestNeighbours
from openjepa.probes.logistic import Logistic, solve


def clouds(number: int = 300, classes: int = 3, dim: int = 6, spread: float = 1.5, seed: int = 0) -> Features:
    """Overlapping clouds, one a class; the centres are the same for every seed."""
    centres = 2 * torch.randn(classes, dim, generator=torch.Generator().manual_seed(99))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (number,), generator=generator)
    return Features(centres[labels] + spread * torch.randn(number, dim, generator=generator), labels)


def test_knn_equals_scikit_learn_with_the_same_weights() -> None:
    train, test = clouds(), clouds(seed=1)
    unit = [torch.nn.functional.normalize(part.vectors, dim=1).numpy() for part in (train, test)]
    theirs = KNeighborsClassifier(20, metric="cosine", weights=lambda distance: np.exp((1 - distance) / 0.07))
    expected = theirs.fit(unit[0], train.labels.numpy()).predict(unit[1])
    assert (NearestNeighbours().fit(train).predict(test).numpy() == expected).mean() > 0.99


def test_knn_weighs_a_near_neighbour_more_than_two_far_ones() -> None:
    train = Features(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.1, 1.0]]), torch.tensor([0, 1, 1]))
    assert NearestNeighbours(k=3).fit(train).predict(
        Features(torch.tensor([[1.0, 0.1]]), torch.tensor([0]))
    ).tolist() == [0]


@pytest.mark.parametrize("strength", [1e-3, 1e-1])
def test_logistic_equals_scikit_learn(strength: float) -> None:
    train = clouds()
    x = (train.vectors - train.vectors.mean(0)) / train.vectors.std(0)
    ours = solve(x, train.labels, strength, 500)
    theirs = LogisticRegression(C=1 / (strength * len(x)), tol=1e-8, max_iter=2000).fit(x.numpy(), train.labels.numpy())
    expected = torch.softmax(torch.from_numpy(x.numpy() @ theirs.coef_.T + theirs.intercept_), dim=1).float()
    probabilities = torch.softmax(x @ ours[:, :-1].T + ours[:, -1], dim=1)
    assert torch.allclose(probabilities, expected, atol=2e-3)


def test_logistic_ignores_a_constant_channel() -> None:
    train, test = clouds(), clouds(seed=1)
    padded = [
        Features(torch.cat([part.vectors, torch.full((300, 1), 7.0)], dim=1), part.labels) for part in (train, test)
    ]
    assert Logistic().fit(padded[0]).score(padded[1]) == Logistic().fit(train).score(test)


def test_rotating_wide_features_changes_next_to_nothing() -> None:
    train, test = clouds(), clouds(seed=1)
    wide = torch.randn(6, 700, generator=torch.Generator().manual_seed(5))
    parts = [Features(part.vectors @ wide, part.labels) for part in (train, test)]
    probe = Logistic(strengths=(1e-2,)).fit(parts[0])
    x, y = ((part.vectors - parts[0].vectors.mean(0)) / parts[0].vectors.std(0) for part in parts)
    weight = solve(x, parts[0].labels, 1e-2, 500)
    expected = (y @ weight[:, :-1].T + weight[:, -1]).argmax(dim=1)
    assert (probe.predict(parts[1]) == expected).float().mean() > 0.985


@pytest.mark.parametrize("name", probes.names())
def test_features_that_tell_the_class_give_a_perfect_score(name: str) -> None:
    labels = torch.arange(200) % 4
    trivial = Features(torch.eye(4)[labels] + 0.01 * torch.randn(200, 4), labels)
    assert probes[name]().fit(trivial).score(trivial)["accuracy"] == 1.0


@pytest.mark.parametrize("name", probes.names())
def test_shuffled_labels_fall_to_chance(name: str) -> None:
    train, test = clouds(1000), clouds(1000, seed=1)
    generator = torch.Generator().manual_seed(0)
    # Both sets are shuffled: a probe fitted to noise may still send whole clouds to one class, which could be the right one.
    shuffled = [
        Features(part.vectors, part.labels[torch.randperm(1000, generator=generator)]) for part in (train, test)
    ]
    assert probes[name]().fit(shuffled[0]).score(shuffled[1])["accuracy"] == pytest.approx(1 / 3, abs=0.06)


@pytest.mark.parametrize("name", probes.names())
def test_real_structure_is_found(name: str) -> None:
    assert probes[name]().fit(clouds()).score(clouds(seed=1))["accuracy"] > 0.75
