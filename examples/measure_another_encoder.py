"""Evaluate your own encoder with our probes: `python examples/measure_another_encoder.py` (half a minute).

`openjepa.evaluate` takes any module that maps images [B, 3, h, w] to tokens [B, N, D] or vectors [B, D]. Images come
normalised with ImageNet's mean and deviation; a module that needs something else undoes it first, as this one does.
A model from Hugging Face needs three lines:

    class Wrapped(nn.Module):
        def __init__(self, model): super().__init__(); self.model = model
        def forward(self, images): return self.model(pixel_values=images).last_hidden_state
"""

import torch
from torch import Tensor, nn

import openjepa
from openjepa.data.crops.batched import MEAN, STD


class Palette(nn.Module):
    """A histogram of 64 colours: [B, 3, h, w] -> [B, 64]."""

    def __init__(self, levels: int = 4) -> None:
        super().__init__()
        steps = torch.linspace(0, 1, levels)
        self.colours = nn.Parameter(torch.cartesian_prod(steps, steps, steps))  # [64, 3]

    def forward(self, images: Tensor) -> Tensor:
        mean, std = (torch.tensor(values, device=images.device)[:, None, None] for values in (MEAN, STD))
        pixels = (images * std + mean).flatten(2).transpose(1, 2)  # [B, h·w, 3] in 0 … 1
        likeness = -torch.cdist(pixels, self.colours).square() / 0.01  # [B, h·w, 64]
        return likeness.softmax(dim=2).mean(dim=1)


def main() -> None:
    scores = openjepa.evaluate(
        Palette(), ["scenes-colour", "scenes-count"], probe="logistic", image_size=32, num_train=2000, num_test=1000
    )
    for score in scores:
        low, high = (100 * limit for limit in score.interval)
        print(f"{score.task:14} {score.representation:15} {100 * score.accuracy:5.1f} %  [{low:.1f}, {high:.1f}]")


if __name__ == "__main__":
    main()
