"""Do predictions depend on the image, or only on the position?

skill = 1 - loss / loss of the best constant per position, in the method's own loss: 1 is perfect, 0 makes no use of the
context. Needs the `predictions` of the step and a method with a `distance`; without them it yields no values.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor

from openjepa.core.contracts import MeasuresDistance, View, monitors
from openjepa.core.duration import Duration
from openjepa.core.numbers import DurationField

MAX_IMAGES = 256  # of this process's batch: bounds time and memory
Distance = Callable[[Tensor, Tensor], Tensor]  # [..., D] twice -> scalar


@monitors.register("prediction")
@dataclass(frozen=True, kw_only=True)
class Prediction:
    every: DurationField = Duration(2, "percent")

    def __call__(self, view: View) -> Iterable[tuple[str, float]]:
        output, method = view.output.predictions, view.method
        if output is None or not isinstance(method, MeasuresDistance):
            return []
        num_images = len(view.batch.images) if view.batch is not None else len(output.index)
        if num_images < 2:
            return []
        tensors = (output.predicted, output.target, output.index)
        predictions, targets, index = (_by_image(tensor, num_images) for tensor in tensors)
        values = {
            "prediction/skill": skill(predictions.float(), targets.float(), index, method.distance),
            "prediction/std": spread(predictions.float(), targets.float(), index),
        }
        return [(name, value) for name, value in values.items() if math.isfinite(value)]


def _by_image(tensor: Tensor, num_images: int) -> Tensor:
    """[B·C, M, T, ...] -> [B, C·M·T, ...], of at most MAX_IMAGES: all predictions for one image in one row."""
    return tensor.unflatten(0, (num_images, -1)).flatten(1, 3)[:MAX_IMAGES]


def skill(predictions: Tensor, targets: Tensor, index: Tensor, distance: Distance) -> float:
    """[B, I, D] twice, positions [B, I] -> by which share the loss is below that of predicting the mean of a position.

    nan when no position was predicted for two images.
    A mean over n images that includes the predicted one is too close to it, a mean without it not close enough;
    √(n/(n-1)), Bessel's correction, gives the squared error of the mean over infinitely many images.
    """
    deviation, count = _from_position_means(targets, index)
    is_known = count > 1  # with one image at a position there is no mean to compare with
    scale = (count / (count - 1).clamp(min=1)).sqrt()[..., None]
    baseline = targets - scale * deviation
    truth = targets[is_known]  # [K, D]
    return 1 - (distance(predictions[is_known], truth) / distance(baseline[is_known], truth).clamp(min=1e-12)).item()


def spread(predictions: Tensor, targets: Tensor, index: Tensor) -> float:
    """[B, I, D] twice, positions [B, I] -> how much predictions at one position vary over images, relative to targets."""
    ours, theirs = (_from_position_means(tokens, index)[0].square().mean() for tokens in (predictions, targets))
    return (ours / theirs.clamp(min=1e-12)).sqrt().item()


def _from_position_means(tokens: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """[B, I, D], [B, I] -> each token minus the mean of its position over images, and the number of these images.

    A position that overlapping blocks predict twice for one image counts once.
    """
    num_positions, dim = int(index.max()) + 1, tokens.shape[2]
    by_position = tokens.new_zeros(len(tokens), num_positions, dim)
    by_position.scatter_(1, index[..., None].expand_as(tokens), tokens)  # [B, N, D]
    count = tokens.new_zeros(len(tokens), num_positions).scatter_(1, index, 1.0).sum(dim=0)  # [N]
    means = by_position.sum(dim=0) / count.clamp(min=1)[:, None]  # [N, D]
    return tokens - means[index], count[index]
