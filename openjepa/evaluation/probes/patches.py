"""A dictionary of whitened image patches, found by k-means (Coates, Ng and Lee 2011; Coates and Ng 2011).

The strongest baseline: it learns from the training images of a task, without labels, within minutes. An image becomes the
activations of every word (centroid) of the dictionary, averaged over its four quadrants: 3,200 numbers for 800 words.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from openjepa.core import seeding
from openjepa.machine.console import Track
from openjepa.nn.whitening import whitening

CONTRAST = 0.003  # added to the variance of a patch: the papers' 10, there for pixels of 0 … 255
RIDGE = 0.1  # of whitening, as in the papers
USUAL_SIDE = 32  # larger images get a larger stride: about 30 × 30 patches, whatever the size
MOST_PER_IMAGE = 200  # patches that a small data set takes from one image
CHUNK_NUMBERS = 2**21  # distances in memory at a time: 8 MB, which fits into the cache of many processors


@dataclass(frozen=True, kw_only=True)
class Settings:
    patch_size: int = 6
    num_words: int = 800
    num_images: int = 10_000  # to learn from, drawn from the training images
    num_patches: int = 200_000
    iterations: int = 10  # of k-means
    num_scaled: int = 1_000  # images whose features give the mean and the deviation
    most_pixels: int = 64  # height and width of larger images are reduced to this
    seed: int = 0


class PatchDictionary(nn.Module):
    """Made by `learn`. Parameters, not buffers: features are extracted on the device of the parameters."""

    def __init__(self, words: Tensor, mean: Tensor, whiten: Tensor, settings: Settings) -> None:
        """words [K, P], white; mean [P] and whiten [P, P] of patches after `same_contrast`."""
        super().__init__()
        self.settings = settings
        self.words, self.mean, self.whiten = _fixed(words), _fixed(mean), _fixed(whiten)
        self.centre, self.scale = _fixed(torch.zeros(4 * len(words))), _fixed(torch.ones(4 * len(words)))

    @classmethod
    def load(cls, state: dict[str, Tensor], settings: Settings) -> Self:
        dictionary = cls(state["words"], state["mean"], state["whiten"], settings)
        dictionary.load_state_dict(state)
        return dictionary

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, h, w] -> [B, 4·K], standardised over training images."""
        return (self.activations(images) - self.centre) / self.scale

    def activations(self, images: Tensor) -> Tensor:
        """[B, 3, h, w] -> [B, 4·K]"""
        images, size = resized(images, self.settings), self.settings.patch_size
        strides = tuple(max(round(side / USUAL_SIDE), 1) for side in images.shape[2:])
        rows, columns = ((side - size) // stride + 1 for side, stride in zip(images.shape[2:], strides, strict=True))
        pooled = []
        for chunk in images.split(max(CHUNK_NUMBERS // (rows * columns * len(self.words)), 1)):
            patches = F.unfold(chunk, size, stride=strides).transpose(1, 2)  # [b, rows·columns, P]
            white = (same_contrast(patches) - self.mean) @ self.whiten
            active = triangle(white.flatten(0, 1), self.words)  # [b·rows·columns, K]
            pooled.append(quadrants(active.unflatten(0, (len(chunk), rows, columns))))
        return torch.cat(pooled)


def learn(batches: Iterable[Tensor], num_images: int, settings: Settings, track: Track) -> PatchDictionary:
    """From batches [B, 3, h, w] of about `num_images` images. On the CPU: the result is the same for every device."""
    per_image = min(-(-settings.num_patches // max(num_images, 1)), MOST_PER_IMAGE)
    sampled: list[Tensor] = []
    few: list[Tensor] = []
    for number, batch in enumerate(batches):
        images = resized(batch, settings)
        generator = seeding.generator(settings.seed, "patches", number)
        sampled.append(random_patches(images, settings.patch_size, per_image, generator))
        if sum(len(batch) for batch in few) < settings.num_scaled:
            few.append(images)
    patches = same_contrast(torch.cat(sampled))  # [S, P]
    mean = patches.mean(dim=0)
    patches -= mean
    whiten = whitening(patches.T @ patches / len(patches), ridge=RIDGE, is_symmetric=True).float()
    words = kmeans(patches @ whiten, settings, track)
    dictionary = PatchDictionary(words, mean, whiten, settings)
    scaled = torch.cat([dictionary.activations(images) for images in few])
    std, centre = torch.std_mean(scaled, dim=0, correction=0)
    dictionary.centre.copy_(centre)
    dictionary.scale.copy_(std.clamp(min=1e-3 * max(std.max().item(), 1e-3)))  # a constant must not divide by zero
    return dictionary


def resized(images: Tensor, settings: Settings) -> Tensor:
    """[B, 3, h, w] -> at most `most_pixels` high and wide; at least two patches, so that every quadrant has some."""
    size = tuple(min(max(side, 2 * settings.patch_size), settings.most_pixels) for side in images.shape[2:])
    return images if size == images.shape[2:] else F.interpolate(images, size=size, mode="area")


def random_patches(images: Tensor, size: int, number: int, generator: torch.Generator) -> Tensor:
    """[B, 3, h, w] -> [B·number, 3·size·size], `number` of each image, anywhere in it."""
    every = images.unfold(2, size, 1).unfold(3, size, 1)  # [B, 3, rows, columns, size, size], a view
    image = torch.arange(len(images)).repeat_interleave(number)  # [B·number]
    row, column = (torch.randint(every.shape[dim], image.shape, generator=generator) for dim in (2, 3))
    return every[image, :, row, column].flatten(1)


def same_contrast(patches: Tensor) -> Tensor:
    """[..., P] -> [..., P]: mean 0 and deviation about 1; a patch with no contrast becomes 0."""
    variance, mean = torch.var_mean(patches, dim=-1, keepdim=True, correction=0)
    return (patches - mean) * (variance + CONTRAST).rsqrt()


def kmeans(patches: Tensor, settings: Settings, track: Track) -> Tensor:
    """[S, P] -> [K, P], starting from random patches; fewer than `num_words` if there are fewer patches."""
    order = torch.randperm(len(patches), generator=seeding.generator(settings.seed, "words"))
    words = patches[order[: settings.num_words]]
    for _ in track(range(settings.iterations), "learning a patch dictionary", settings.iterations):
        words = kmeans_step(patches, words)
    return words


def kmeans_step(patches: Tensor, words: Tensor) -> Tensor:
    """[S, P], [K, P] -> [K, P]: every word moves to the mean of the patches that are nearest to it, if there are any."""
    sums, counts = torch.zeros_like(words), torch.zeros(len(words))
    for chunk in patches.split(max(CHUNK_NUMBERS // len(words), 1)):
        nearest = distances(chunk, words).argmin(dim=1)
        sums.index_add_(0, nearest, chunk)
        counts += nearest.bincount(minlength=len(words))
    return torch.where(counts[:, None] > 0, sums / counts[:, None].clamp(min=1), words)


def distances(x: Tensor, words: Tensor) -> Tensor:
    """[S, P], [K, P] -> [S, K]; as one matrix product, also for few patches."""
    return torch.cdist(x, words, compute_mode="use_mm_for_euclid_dist")


def triangle(x: Tensor, words: Tensor) -> Tensor:
    """[S, P], [K, P] -> [S, K]: how much nearer than the average word each word is; 0 for those that are farther."""
    nearness = distances(x, words).neg_()
    return nearness.sub_(nearness.mean(dim=1, keepdim=True)).clamp_(min=0)


def quadrants(active: Tensor) -> Tensor:
    """[B, rows, columns, K] -> [B, 4·K]: the mean of each quadrant; the upper and left ones get the odd row and column."""
    halves = [half for part in active.tensor_split(2, dim=1) for half in part.tensor_split(2, dim=2)]
    return torch.cat([half.mean(dim=(1, 2)) for half in halves], dim=1)


def _fixed(values: Tensor) -> nn.Parameter:
    return nn.Parameter(values, requires_grad=False)
