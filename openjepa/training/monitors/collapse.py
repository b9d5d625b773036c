"""Has the encoder stopped telling images apart? Rank and spread of its features, and how much of a token is mere position.

It encodes whole images of the step's batch with the encoder that evaluation uses. It does not use the targets: they are
normalised and perhaps centred, which scales the last noise of a collapsed encoder up to full size. One forward pass
without gradients every 2 % of a run. The number of images, at most 64, bounds the ranks of pooled features: compare them
within a run, not with published ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from openjepa.core.contracts import View, monitors
from openjepa.core.duration import Duration
from openjepa.core.numbers import DurationField
from openjepa.evaluation import encoders
from openjepa.models.vit import VisionTransformer

MAX_IMAGES, MAX_TOKENS = 64, 2048  # of this process's batch: a reading takes about a fifth of a step of 128 images


@monitors.register("collapse")
@dataclass(frozen=True, kw_only=True)
class Collapse:
    every: DurationField = Duration(2, "percent")

    @torch.no_grad()
    def __call__(self, view: View) -> Iterable[tuple[str, float]]:
        if view.batch is None or len(view.batch.images) < 2:
            return []
        encoder = view.method.encoder
        with encoders.frozen([encoder]):  # reading must not change the statistics of batch norm
            tokens, pooled = _tokens_and_pooled(encoder, view.batch.images[:MAX_IMAGES])
        if not tokens.isfinite().all():
            return []  # this step broke the weights; the loop reports it at the next one
        return [
            ("collapse/rankme", rankme(pooled)),
            ("collapse/effective_rank", effective_rank(pooled)),
            ("collapse/token_rank", token_rank(tokens)),
            ("collapse/feature_std", relative_std(pooled)),
            ("collapse/mean_cosine", mean_cosine(pooled)),
            ("collapse/position_share", position_share(tokens)),
        ]


def _tokens_and_pooled(encoder: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """[B, 3, h, w] -> patch tokens [B, N, D] and the vectors that probes use [B, D]."""
    if isinstance(encoder, VisionTransformer):
        tokens = encoder.encode(images).float()  # [B, C+N, D]
        return tokens[:, encoder.num_class :], encoder.summary(tokens)
    tokens = encoder(images).float()
    return tokens, tokens.mean(dim=1)


def rankme(features: Tensor) -> float:
    """[S, D] -> the number of directions in use, 1 … min(S, D): exp of the entropy of the singular values (Garrido et al. 2023)."""
    return _perplexity(torch.linalg.svdvals(features.float()))


def effective_rank(features: Tensor) -> float:
    """[S, D] -> the same for the eigenvalues of the covariance: the shared mean does not count, small directions count little."""
    centred = features.float() - features.float().mean(dim=0)
    return _perplexity(torch.linalg.svdvals(centred).square())


def token_rank(tokens: Tensor) -> float:
    """[B, N, D] -> RankMe of at most MAX_TOKENS tokens, each minus the mean of its position.

    It agreed with probes where other ranks did not (docs/watch.md): a mean that all images share may grow in a healthy
    run and hides the ranks and cosines of pooled features; also, a batch has many more tokens than images.
    """
    centred = (tokens - tokens.mean(dim=0)).flatten(0, 1)  # [B·N, D]
    return rankme(centred[:: max(-(-len(centred) // MAX_TOKENS), 1)])


def _perplexity(weights: Tensor) -> float:
    share = weights / weights.sum().clamp(min=1e-12) + 1e-7
    return torch.exp(-(share * share.log()).sum()).item()


def relative_std(features: Tensor) -> float:
    """[S, D] -> mean over channels of the spread over images, after scaling every image to length √D; 0 is collapse."""
    unit = F.normalize(features.float(), dim=1) * features.shape[1] ** 0.5
    return unit.std(dim=0).mean().item()


def mean_cosine(features: Tensor) -> float:
    """[S, D] -> the average cosine of two different images; 1 is collapse."""
    unit = F.normalize(features.float(), dim=1)
    total = unit.sum(dim=0)
    count = len(unit)
    return ((total @ total - count) / (count * (count - 1))).item()


def position_share(tokens: Tensor) -> float:
    """[B, N, D] -> the share of the tokens' variance that position alone explains; at 1, content does not matter.

    Never quite 0: the mean of B images still contains 1/B of their variance.
    """
    centred = tokens - tokens.mean(dim=(0, 1))
    of_positions = centred.mean(dim=0).square().mean()  # of [N, D]
    return (of_positions / centred.square().mean().clamp(min=1e-12)).item()
