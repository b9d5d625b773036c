"""Whitening: a linear map after which all directions of the data have (nearly) the same spread."""

import torch
from torch import Tensor


def whitening(
    covariance: Tensor, *, ridge: float = 0.0, relative_ridge: float = 0.0, is_symmetric: bool = False
) -> Tensor:
    """[D, D] -> [D, D] float64: the map W for `x @ W`, so that Wᵀ (covariance + ridge) W is the identity.

    A ridge keeps directions with almost no spread small; `relative_ridge` counts in mean spreads. The columns of W are
    the principal directions, scaled (PCA whitening); a symmetric W rotates back afterwards (ZCA whitening) and is
    (covariance + ridge)^(-1/2). In double precision: it amplifies small numbers.

    >>> import torch
    >>> from openjepa.nn.whitening import whitening
    >>> x = torch.randn(500, 3) @ torch.tensor([[5.0, 0, 0], [1, 1, 0], [0, 0, 0.1]])
    >>> white = x.double() @ whitening(x.T @ x / len(x))
    >>> torch.allclose(white.T @ white / len(x), torch.eye(3).double(), atol=1e-3)
    True
    """
    spread, directions = torch.linalg.eigh(covariance.double())
    scaled = directions * (spread.clamp(min=0) + (ridge + relative_ridge * spread.mean())).rsqrt()
    return scaled @ directions.T if is_symmetric else scaled
