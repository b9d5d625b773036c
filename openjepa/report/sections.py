"""The sections of a report that show images: masks, attention, PCA, predictions, neighbours."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from openjepa.core import seeding
from openjepa.core.contracts import Method, PredictsBlocks
from openjepa.evaluation.probes.baselines import random_like
from openjepa.masks.statistics import coverage
from openjepa.models.vit import VisionTransformer
from openjepa.report import attention_widget, captions
from openjepa.report.figures import attention, imagination, masks, nearest_patches, neighbours, pca, predictions
from openjepa.report.figures.predictions import PredictiveModel
from openjepa.report.page import AttentionWidget, Paragraph, Part, Plot, Section
from openjepa.report.record import SEED, Shown

NUM_SHOWN = 8  # images in a row
NUM_ATTENTION, NUM_HEADS = 3, 8  # images and heads in the still figure
NUM_QUERIES = 6  # rows of neighbours
NUM_STATISTICS = 512  # images behind means and neighbours …
TOKEN_LIMIT = 65_536  # … and at most this many patches, which bounds time and memory for fine grids
FEWEST = 32  # fewer images give no useful mean
MEAN_DRAWS, SKILL_DRAWS = 2, 24  # masks per image; with 24, all but a few patches are a target at least once
BATCH = 64


def num_images(encoder: VisionTransformer) -> int:
    return max(min(NUM_STATISTICS, TOKEN_LIMIT // encoder.grid.size), FEWEST)


@dataclass(frozen=True)
class Inputs:
    """What every section here needs: a method, its encoder and some images, all on one device."""

    method: Method
    encoder: VisionTransformer
    shown: Shown

    @cached_property
    def tokens(self) -> Tensor:
        """[S, N, D] of the whole images."""
        return tokens_of(self.encoder, self.shown.images)

    @cached_property
    def model(self) -> PredictiveModel | None:
        return predictive(self.method)

    def generator(self, purpose: str) -> torch.Generator:
        return seeding.generator(SEED, f"report {purpose}")


@torch.no_grad()
def tokens_of(encoder: nn.Module, images: Tensor) -> Tensor:
    """[S, 3, h, w] -> [S, N, D]"""
    return torch.cat([encoder(batch).cpu() for batch in images.split(BATCH)])


def predictive(method: Method) -> PredictiveModel | None:
    """The predicting half of a method that is built like I-JEPA; None for the others."""
    encoder = method.encoder
    if not isinstance(method, PredictsBlocks) or not isinstance(encoder, VisionTransformer):
        return None
    return PredictiveModel(encoder.grid, method.draw_masks, method.predict_blocks, method.targets, method.distance)


def masks_section(inputs: Inputs) -> Section | None:
    model = inputs.model
    if model is None:
        return None
    images = inputs.shown.crops[:NUM_SHOWN]
    examples = model.draw_masks(len(images), model.grid, inputs.generator("masks"))
    generator = inputs.generator("coverage")
    counted = coverage(model.draw_masks, model.grid, batch_size=64, num_batches=32, generator=generator)
    chances = captions.COVERAGE.format(
        num_images=counted.num_images, context=counted.context_share, grid=model.grid, target=counted.target_share
    )
    parts: list[Part] = [
        Paragraph(captions.MASKS),
        Plot(masks.figure(images, examples, model.grid), "masks over images"),
        Paragraph(chances),
        Plot(masks.coverage_figure(counted), "coverage by position"),
    ]
    return Section("masks", "Masks", parts)


def attention_section(inputs: Inputs) -> Section:
    encoder, images = inputs.encoder, inputs.shown.images[:NUM_ATTENTION]
    queries = attention.busy_and_plain(images, encoder.patch_size)
    figure = attention.figure(images, encoder.attention(images)[:, :NUM_HEADS], queries, encoder.grid)
    num_heads = encoder.size.num_heads
    heads = f" The first {NUM_HEADS} of {num_heads} heads." if num_heads > NUM_HEADS else ""
    still = Plot(figure, "attention of some patches in the last block", captions.ATTENTION_STILL.format(heads=heads))
    return Section("attention", "Attention", [Paragraph(captions.ATTENTION), _widget(inputs), still])


def _widget(inputs: Inputs) -> Part:
    data = attention_widget.attention_as_bytes(inputs.encoder, inputs.shown.images[:NUM_SHOWN])
    if data is None:
        return Paragraph("The attention of this model is too large for an interactive figure.", "note")
    return AttentionWidget(data)


def pca_section(inputs: Inputs) -> Section:
    images = inputs.shown.images[:NUM_SHOWN]
    random = tokens_of(random_like(inputs.encoder).to(images.device), inputs.shown.images)
    rows = {}
    for name, tokens in (("trained", inputs.tokens), ("random", random)):
        rows[name] = tokens[: len(images)]
        if len(inputs.shown) >= FEWEST:
            rows[f"{name},\nposition removed"] = pca.without_positions(tokens[: len(images)], tokens.mean(dim=0))
    figure = pca.figure(images, rows, inputs.encoder.grid)
    plot = Plot(figure, "principal components of patch tokens")
    return Section("pca", "What patches mean (PCA)", [Paragraph(captions.PCA), plot])


def predictions_section(inputs: Inputs) -> Section | None:
    model, crops = inputs.model, inputs.shown.crops
    if model is None:
        return None
    if len(crops) < FEWEST:
        text = f"{len(crops)} images are too few for a mean of each position; {FEWEST} are needed."
        return Section("predictions", "Predictions", [Paragraph(text, "note")])
    first = crops[:NUM_SHOWN]
    means = predictions.position_means(model, crops, num_draws=MEAN_DRAWS, generator=inputs.generator("means"))
    generator = inputs.generator("skill")
    skill = predictions.prediction_skill(model, first, means, num_draws=SKILL_DRAWS, generator=generator)
    overall = f"{skill.overall:+.2f}".replace("-", "−")
    parts = [
        Paragraph(captions.SKILL.format(skill=overall, num_draws=SKILL_DRAWS)),
        Plot(predictions.figure(first, skill, model.grid), "prediction skill of each patch"),
        *_imagined(inputs, model),
    ]
    return Section("predictions", "Predictions", parts)


def _imagined(inputs: Inputs, model: PredictiveModel) -> list[Part]:
    crops = inputs.shown.crops
    pool = nearest_patches.encode_pool(model, crops[NUM_SHOWN:])
    imagined = imagination.imagine(model, crops[:NUM_SHOWN], pool, generator=inputs.generator("imagined"))
    return [
        Paragraph(captions.IMAGINED),
        Plot(imagination.figure(imagined), "hidden patches filled with the patches nearest to predictions"),
        Paragraph(captions.CLOSER),
        Plot(imagination.patches_figure(imagined), "real patches nearest to single predictions"),
    ]


def neighbours_section(inputs: Inputs) -> Section:
    images = inputs.shown.images
    queries = torch.arange(min(NUM_QUERIES, len(images)))
    nearest = neighbours.nearest(inputs.tokens.mean(dim=1), queries)
    text = captions.NEIGHBOURS.format(num_images=len(images), split=inputs.shown.split)
    figure = neighbours.figure(images, queries, nearest)
    return Section("neighbours", "Nearest neighbours", [Paragraph(text), Plot(figure, "nearest neighbours")])
