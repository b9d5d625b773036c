"""Whitening against scipy, scikit-learn and numpy."""

import numpy as np
import scipy.linalg
import torch
from sklearn.decomposition import PCA

from openjepa.nn.whitening import whitening


def covariance(seed: int = 1) -> torch.Tensor:
    factor = torch.randn(40, 6, generator=torch.Generator().manual_seed(seed))
    return factor.T @ factor / 40


def test_symmetric_whitening_equals_scipys_matrix_power() -> None:
    matrix = covariance()
    ridge = 0.1 * matrix.diagonal().mean() * torch.eye(6)
    expected = scipy.linalg.fractional_matrix_power((matrix + ridge).double().numpy(), -0.5)
    whitener = whitening(matrix, relative_ridge=0.1, is_symmetric=True)
    assert torch.allclose(whitener, torch.from_numpy(expected), atol=1e-5)


def test_whitened_data_equal_scikit_learns_up_to_signs() -> None:
    x = torch.randn(300, 6, generator=torch.Generator().manual_seed(0)) @ covariance(2)
    centred = (x - x.mean(dim=0)).double()
    ours = (centred @ whitening(centred.T @ centred / (len(x) - 1))).flip(
        1
    )  # scikit-learn puts the widest direction first
    theirs = torch.from_numpy(PCA(whiten=True).fit_transform(x.double().numpy()))
    assert torch.allclose(ours.abs(), theirs.abs(), atol=1e-6)


def test_the_ridge_is_added_to_the_covariance() -> None:
    matrix = covariance().double()
    for options, ridge in (({"ridge": 0.3}, 0.3), ({"relative_ridge": 0.5}, 0.5 * matrix.trace().item() / 6)):
        whitener = whitening(matrix, **options)
        identity = whitener.T @ (matrix + ridge * torch.eye(6).double()) @ whitener
        np.testing.assert_allclose(identity.numpy(), np.eye(6), atol=1e-6)


def test_a_direction_without_spread_stays_finite_with_a_ridge() -> None:
    assert whitening(torch.diag(torch.tensor([1.0, 0.0])), relative_ridge=1e-3).isfinite().all()
