"""Do predictions say what a picture shows, or only what is usual at that place?

skill = 1 - loss / loss of the best answer that knows the place and not the picture, in the method's own
loss: 1 is perfect, 0 is no use made of the context. Needs the `predictions` of
the step and a method with a `distance`; without one of them it says nothing.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor

from openjepa.core.contracts import MeasuresDistance, View, monitors
from openjepa.core.duration import Duration
from openjepa.core.numbers import DurationField

MOST_IMAGES = 256  # of this process's batch: bounds time and memory
Distance = Callable[[Tensor, Tensor], Tensor]  # [..., D] twice -> scalar


@monitors.register("prediction")
@dataclass(frozen=True, kw_only=True)
class Prediction:
    every: DurationField = Duration(2, "percent")

    def __call__(self, view: View) -> Iterable[tuple[str, float]]:
        seen, method = view.output.predictions, view.method
        if seen is None or not isinstance(method, MeasuresDistance):
            return []
        num_images = len(view.batch.images) if view.batch is not None else len(seen.index)
        if num_images < 2:
            return []
        found = (_by_image(tensor, num_images) for tensor in (seen.predicted, seen.target, seen.index))
        predictions, targets, index = found
        values = {
            "prediction/skill": skill(predictions.float(), targets.float(), index, method.distance),
            "prediction/std": spread(predictions.float(), targets.float(), index),
        }
        return [(name, value) for name, value in values.items() if math.isfinite(value)]


def _by_image(tensor: Tensor, num_images: int) -> Tensor:
    """[B·C, M, T, ...] -> [B, C·M·T, ...], of at most MOST_IMAGES: all that was asked of one picture belongs together."""
    return tensor.unflatten(0, (num_images, -1)).flatten(1, 3)[:MOST_IMAGES]


def skill(predictions: Tensor, targets: Tensor, index: Tensor, distance: Distance) -> float:
    """[B, I, D] twice, places [B, I] -> the share saved of the loss of answering with the mean of a place.

    nan when no place is asked of two pictures.
    The mean of n pictures that include the asked one comes too near to it, their mean without it not near enough;
    √(n/(n-1)), Bessel's correction, gives the squared error that the mean of endless pictures would have.
    """
    deviation, count = _from_place_means(targets, index)
    is_known = count > 1  # a place asked of one picture has no mean to compare with
    scale = (count / (count - 1).clamp(min=1)).sqrt()[..., None]
    guess = targets - scale * deviation
    truth = targets[is_known]  # [K, D]
    return 1 - (distance(predictions[is_known], truth) / distance(guess[is_known], truth).clamp(min=1e-12)).item()


def spread(predictions: Tensor, targets: Tensor, index: Tensor) -> float:
    """[B, I, D] twice, places [B, I] -> how much predictions of one place differ between pictures, relative to targets."""
    ours, theirs = (_from_place_means(tokens, index)[0].square().mean() for tokens in (predictions, targets))
    return (ours / theirs.clamp(min=1e-12)).sqrt().item()


def _from_place_means(tokens: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """[B, I, D], [B, I] -> each token minus the mean of its place over pictures, and of how many pictures that is.

    A place asked twice of one picture, by overlapping blocks, counts once.
    """
    num_places, dim = int(index.max()) + 1, tokens.shape[2]
    held = tokens.new_zeros(len(tokens), num_places, dim)
    held.scatter_(1, index[..., None].expand_as(tokens), tokens)  # [B, N, D]
    count = tokens.new_zeros(len(tokens), num_places).scatter_(1, index, 1.0).sum(dim=0)  # [N]
    means = held.sum(dim=0) / count.clamp(min=1)[:, None]  # [N, D]
    return tokens - means[index], count[index]
