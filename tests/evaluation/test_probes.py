"""Probes against scikit-learn and hand-made cases."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from openjepa.core import schema, seeding
from openjepa.core.contracts import probes
from openjepa.core.errors import BadInput
from openjepa.core.types import Features
from openjepa.data import splits
from openjepa.evaluation.probes import logistic
from openjepa.evaluation.probes.knn import NearestNeighbours
from openjepa.evaluation.probes.logistic import Logistic, solve


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


def test_whitened_knn_equals_scikit_learns_whitened_principal_components() -> None:
    train, test = clouds(), clouds(seed=1)
    pca = PCA(whiten=True).fit(train.vectors.numpy())
    whitened = [Features(torch.from_numpy(pca.transform(part.vectors.numpy())), part.labels) for part in (train, test)]
    expected = NearestNeighbours().fit(whitened[0]).predict(whitened[1])
    assert (NearestNeighbours(whiten=True).fit(train).predict(test) == expected).float().mean() > 0.98


def test_loud_directions_drown_plain_knn_and_not_whitened_knn() -> None:
    noise = 100 * torch.randn(600, 2, generator=torch.Generator().manual_seed(5))
    loud = [
        Features(torch.cat([part.vectors, noise[rows]], dim=1), part.labels)
        for part, rows in ((clouds(), slice(0, 300)), (clouds(seed=1), slice(300, 600)))
    ]
    plain, whitened = (NearestNeighbours(whiten=on).fit(loud[0]).score(loud[1])["accuracy"] for on in (False, True))
    assert whitened > plain + 0.2


@pytest.mark.parametrize("strength", [1e-3, 1e-1])
def test_logistic_equals_scikit_learn(strength: float) -> None:
    train = clouds()
    x = (train.vectors - train.vectors.mean(0)) / train.vectors.std(0)
    ours = solve(x, train.labels, strength, 500)
    theirs = LogisticRegression(C=1 / (strength * len(x)), tol=1e-8, max_iter=2000).fit(x.numpy(), train.labels.numpy())
    expected = torch.softmax(torch.from_numpy(x.numpy() @ theirs.coef_.T + theirs.intercept_), dim=1).float()
    probabilities = torch.softmax(x @ ours[:, :-1].T + ours[:, -1], dim=1)
    assert torch.allclose(probabilities, expected, atol=2e-3)


def test_logistic_is_at_its_optimum_also_when_few_directions_hold_nearly_all_spread() -> None:
    """Against Newton's method: 40 channels mixed from directions whose spread falls by a factor of 1,000."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(2000, 40, generator=generator)
    labels = (hidden[:, -1] + 0.5 * torch.randn(2000, generator=generator) > 0).long()  # in the faintest of them
    mixing = torch.linalg.qr(torch.randn(40, 40, generator=generator)).Q
    x = (hidden * torch.logspace(0, -3, 40)) @ mixing
    x = (x - x.mean(0)) / x.std(0)
    ours = solve(x, labels, 1e-6, 100)
    probabilities = (x @ ours[:, :-1].T + ours[:, -1]).softmax(dim=1)[:, 1]
    weight = newton(x.double(), labels.double(), 1e-6)
    expected = (x.double() @ weight[:-1] + weight[-1]).sigmoid()
    assert (probabilities - expected).abs().max() < 5e-3
    assert ((probabilities > 0.5) == labels.bool()).float().mean() > 0.8


def newton(x: torch.Tensor, labels: torch.Tensor, strength: float) -> torch.Tensor:
    """[S, D], [S] of 0 and 1 -> [D + 1]. Two columns of weights share what one carries here, and with it the penalty: / 2."""
    x = torch.cat([x, torch.ones(len(x), 1)], dim=1)
    penalty = torch.full((x.shape[1],), strength / 2, dtype=torch.float64)
    penalty[-1] = 0
    weight = torch.zeros(x.shape[1], dtype=torch.float64)
    for _ in range(60):
        p = (x @ weight).sigmoid()
        gradient = x.T @ (p - labels) / len(x) + penalty * weight
        curvature = (x * (p * (1 - p))[:, None]).T @ x / len(x) + penalty.diag()
        weight = weight - 0.5 * torch.linalg.solve(curvature, gradient)  # half a step: it need not hurry
    return weight


def test_logistic_ignores_a_constant_channel() -> None:
    train, test = clouds(), clouds(seed=1)
    padded = [
        Features(torch.cat([part.vectors, torch.full((300, 1), 7.0)], dim=1), part.labels) for part in (train, test)
    ]
    assert Logistic().fit(padded[0]).score(padded[1]) == Logistic().fit(train).score(test)


def test_logistic_standardises_chooses_and_refits_as_scikit_learn_would() -> None:
    """The whole probe against a pipeline written with scikit-learn: same held-out tenth, same strengths, same choice."""
    train, test = clouds(600, classes=4, spread=3.0), clouds(600, classes=4, spread=3.0, seed=1)
    probe = Logistic().fit(train)
    x, y = train.vectors.numpy(), train.labels.numpy()
    x = (x - x.mean(0)) / x.std(0, ddof=1)
    used, held_out = splits.split(train.labels, 0.1, seeding.generator(0, "logistic validation"))
    scores = {}
    for strength in probe.strengths:
        model = LogisticRegression(C=1 / (strength * len(used)), tol=1e-8, max_iter=5000).fit(x[used], y[used])
        scores[strength] = model.score(x[held_out], y[held_out])
    best = max(scores, key=lambda strength: (scores[strength], strength))
    assert probe.strength == best and probe.chosen == {"strength": best, "directions": 6}
    model = LogisticRegression(C=1 / (best * len(x)), tol=1e-8, max_iter=5000).fit(x, y)
    z = (test.vectors.numpy() - train.vectors.numpy().mean(0)) / train.vectors.numpy().std(0, ddof=1)
    assert (probe.predict(test).numpy() == model.predict(z)).mean() > 0.995


def test_rotating_few_samples_of_many_channels_changes_nothing() -> None:
    """Full-rank noise in 300 channels, 60 samples: the solution in the span of the samples is the solution."""
    generator = torch.Generator().manual_seed(0)
    parts = []
    for _ in range(2):
        labels = torch.randint(3, (60,), generator=generator)
        vectors = torch.randn(60, 300, generator=generator)
        vectors[:, :3] += 2.0 * torch.eye(3)[labels]
        parts.append(Features(vectors, labels))
    probe = Logistic(strengths=(1e-2,), max_iterations=500).fit(parts[0])
    assert probe._rotation is not None and probe._rotation.shape[1] < 60
    x, y = ((part.vectors - parts[0].vectors.mean(0)) / parts[0].vectors.std(0) for part in parts)
    weight = solve(x, parts[0].labels, 1e-2, 500)
    expected = y @ weight[:, :-1].T + weight[:, -1]
    probabilities = probe._prepared(parts[1].vectors) @ probe._weight[:, :-1].T + probe._weight[:, -1]
    assert torch.allclose(probabilities, expected, atol=2e-2), (probabilities - expected).abs().max()


def test_very_wide_features_keep_their_leading_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 channels mixed from 40 directions that fade: the 30 widest give what all give."""
    monkeypatch.setattr(logistic, "WIDEST", 100)
    monkeypatch.setattr(logistic, "MOST_DIRECTIONS", 30)
    generator = torch.Generator().manual_seed(0)
    mixing = torch.logspace(0, -4, 40)[:, None] * torch.randn(40, 300, generator=generator)
    parts = []
    for _ in range(2):
        x = torch.randn(800, 40, generator=generator)
        parts.append(Features(x @ mixing, (x[:, 0] + x[:, 1] > 0).long()))
    probe = Logistic(strengths=(1e-3,)).fit(parts[0])
    assert probe.chosen["directions"] == 30
    x, y = ((part.vectors - parts[0].vectors.mean(0)) / parts[0].vectors.std(0) for part in parts)
    weight = solve(x, parts[0].labels, 1e-3, 500)
    expected = (y @ weight[:, :-1].T + weight[:, -1]).argmax(dim=1)
    assert (probe.predict(parts[1]) == expected).float().mean() > 0.99


def test_no_direction_of_wide_features_is_dropped() -> None:
    """The class hides in the sum of 1,024 equally large channels, which no few directions hold."""
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(1024, generator=generator)
    parts = []
    for _ in range(2):
        x = torch.randn(3000, 1024, generator=generator)
        parts.append(Features(x, (x @ direction > 0).long()))
    assert Logistic(strengths=(1e-3,)).fit(parts[0]).score(parts[1])["accuracy"] > 0.85


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("knn", {"k": 0}),
        ("knn", {"k": -3}),
        ("knn", {"temperature": 0}),
        ("logistic", {"strengths": []}),
        ("logistic", {"strengths": [-1]}),
        ("logistic", {"max_iterations": 0}),
        ("linear", {"learning_rates": [float("inf")]}),
    ],
)
def test_options_that_make_no_sense_are_refused(name: str, settings: dict) -> None:
    with pytest.raises(BadInput):
        schema.build(probes, {"name": name, **settings})
