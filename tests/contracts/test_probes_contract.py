"""Every registered probe keeps its promises (openjepa/checks/probes.py), and a broken promise is noticed."""

import pytest
import torch

from openjepa import checks
from openjepa.core.contracts import Probe, probes
from openjepa.core.types import Features


@pytest.mark.parametrize("name", probes.names())
def test_a_registered_probe_keeps_its_promises(name: str) -> None:
    checks.probe(probes[name])


class Good(Probe):
    """The class whose mean is nearest."""

    def fit(self, train: Features):
        classes = range(int(train.labels.max()) + 1)
        self.means = torch.stack([train.vectors[train.labels == value].mean(dim=0) for value in classes])
        return self

    def predict(self, test: Features) -> torch.Tensor:
        return torch.cdist(test.vectors, self.means).argmin(dim=1)


class Silent(Good):
    def fit(self, train: Features):
        super().fit(train)


class Scoring(Good):
    def predict(self, test: Features) -> torch.Tensor:
        return -torch.cdist(test.vectors, self.means)


class Narrow(Good):
    def predict(self, test: Features) -> torch.Tensor:
        return super().predict(test).int()


class Inventive(Good):
    def predict(self, test: Features) -> torch.Tensor:
        return super().predict(test) + 1


class Scaling(Good):
    def fit(self, train: Features):
        train.vectors.sub_(train.vectors.mean(dim=0))
        return super().fit(train)


class Fickle(Good):
    def fit(self, train: Features):
        super().fit(train)
        self.means += torch.randn(self.means.shape)
        return self


class Peeking(Good):
    def predict(self, test: Features) -> torch.Tensor:
        return torch.where(torch.arange(len(test.labels)) % 2 == 0, test.labels, super().predict(test))


class Stubborn(Good):
    def predict(self, test: Features) -> torch.Tensor:
        return torch.zeros_like(test.labels)


class Coarse(Good):
    """Right for three classes, not for four."""

    def predict(self, test: Features) -> torch.Tensor:
        return super().predict(test).clamp(max=2)


class Boastful(Good):
    def score(self, test: Features) -> dict[str, float]:
        return {"accuracy": 1.0}


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Silent, "fit does not return the probe"),
        (Scoring, r"predict gives \[300, 3\]; expected int64 \[300\]"),
        (Narrow, r"predict gives torch.int32; expected int64 \[300\]"),
        (Inventive, "a class that the training set does not have"),
        (Scaling, "changes the features"),
        (Fickle, "other predictions the second time"),
        (Peeking, "looks at the labels of the test set"),
        (Stubborn, "three clouds that barely overlap"),
        (Coarse, "features that are the class itself"),
        (Boastful, "accuracy is 1.000 on shuffled labels"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_broken_promise_is_noticed(part: type[Probe], message: str) -> None:
    checks.probe(Good)
    with pytest.raises(AssertionError, match=message):
        checks.probe(part)
