"""Many linear heads on one input as stacked tensors: one matrix product serves them all. Here H is heads, C classes.

Batch norm differs between heads only in scale and shift, so heads share the normalised input x̂, and the rest is linear:
head h gives x̂·(weight_h ∘ scale_h)ᵀ + bias_h + weight_h·shift_h. The features are frozen: no gradient has to reach them,
and the rest is short enough to write by hand.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

EPSILON, STATISTICS_MOMENTUM = 1e-5, 0.1  # of batch norm, as in VISSL's heads


class Heads:
    """`parameters` holds weight [H, C, D] and bias [H, C], and with batch norm also scale and shift [H, D]."""

    def __init__(self, weight: Tensor, num_heads: int, *, has_norm: bool) -> None:
        """`weight` [C, D] is where every head starts; biases start at zero."""
        num_classes, width = weight.shape
        self.parameters = {"weight": weight.repeat(num_heads, 1, 1), "bias": torch.zeros(num_heads, num_classes)}
        self.has_norm = has_norm
        if has_norm:
            self.parameters |= {"scale": torch.ones(num_heads, width), "shift": torch.zeros(num_heads, width)}
            self.running_mean = torch.zeros(width)
            self.running_variance = torch.ones(width)

    def logits(self, x: Tensor) -> Tensor:
        """[B, D] -> [B, H, C], as in evaluation: batch norm uses its running statistics."""
        return self._linear(self._normalised(x, is_training=False))

    def learn(self, x: Tensor, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """[B, D], [B] -> losses [H] and the gradient of each head's own loss; updates the running statistics."""
        x = self._normalised(x, is_training=True)
        losses, slopes = cross_entropy(self._linear(x), labels)  # [H], [B, H, C]
        by_weight = (slopes.flatten(1).T @ x).unflatten(0, slopes.shape[1:])  # [H, C, D]
        by_bias = slopes.sum(dim=0)  # [H, C]
        if not self.has_norm:
            return losses, {"weight": by_weight, "bias": by_bias}
        return losses, self._through_norm(by_weight, by_bias)

    def _through_norm(self, by_product: Tensor, by_bias: Tensor) -> dict[str, Tensor]:
        """`by_product` [H, C, D] is the gradient of weight ∘ scale; by the product rule."""
        weight, scale, shift = (self.parameters[name] for name in ("weight", "scale", "shift"))
        by_scale = (by_product * weight).sum(dim=1)  # [H, D], before by_product is overwritten
        by_shift = (by_bias.unsqueeze(1) @ weight).squeeze(1)  # [H, D]
        by_weight = by_product.mul_(scale.unsqueeze(1)).addcmul_(by_bias.unsqueeze(2), shift.unsqueeze(1))  # [H, C, D]
        return {"weight": by_weight, "bias": by_bias, "scale": by_scale, "shift": by_shift}

    def _linear(self, x: Tensor) -> Tensor:
        """[B, D] -> [B, H, C]"""
        weight, bias = self.parameters["weight"], self.parameters["bias"]
        if self.has_norm:
            bias = bias + (weight @ self.parameters["shift"].unsqueeze(2)).squeeze(2)  # [H, C]
            weight = weight * self.parameters["scale"].unsqueeze(1)  # [H, C, D]
        return F.linear(x, weight.flatten(0, 1), bias.flatten()).unflatten(1, bias.shape)

    def _normalised(self, x: Tensor, *, is_training: bool) -> Tensor:
        """[B, D] -> [B, D]: batch norm without scale and shift, or x as it is."""
        if not self.has_norm:
            return x
        statistics = (self.running_mean, self.running_variance)
        return F.batch_norm(x, *statistics, training=is_training, momentum=STATISTICS_MOMENTUM, eps=EPSILON)


def cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """[B, H, C], [B] -> mean loss of each head [H], and its gradient by the logits [B, H, C]."""
    right = labels[:, None, None].expand(-1, logits.shape[1], 1)  # [B, H, 1]
    log_probabilities = logits.log_softmax(dim=2)
    losses = -log_probabilities.gather(2, right).squeeze(2).mean(dim=0)
    slopes = log_probabilities.exp_()  # probabilities, minus one at the right class
    slopes.scatter_add_(2, right, slopes.new_full((1, 1, 1), -1.0).expand_as(right))
    return losses, slopes.div_(len(labels))
