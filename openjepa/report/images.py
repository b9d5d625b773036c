"""The sections of a report that look at pictures: masks, attention, PCA, predictions, neighbours."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from openjepa.core import seeding
from openjepa.core.contracts import Method
from openjepa.core.types import Masks
from openjepa.evaluation.probes.baselines import random_like
from openjepa.masks.statistics import coverage
from openjepa.models.vit import VisionTransformer
from openjepa.report import attention_widget, captions
from openjepa.report.figures import attention, imagination, lookup, masks, neighbours, pca, predictions
from openjepa.report.figures.predictions import PredictiveModel
from openjepa.report.page import Section, figure_html, paragraph
from openjepa.report.record import SEED, Shown

NUM_SHOWN = 8  # pictures in a row
NUM_ATTENTION, NUM_HEADS = 3, 8  # pictures and heads in the still figure
NUM_QUERIES = 6  # rows of neighbours
NUM_STATISTICS = 512  # pictures behind means and neighbours …
TOKEN_LIMIT = 65_536  # … and at most so many patches, which bounds time and memory for fine grids
FEWEST = 32  # pictures without which a mean over pictures says little
MEAN_DRAWS, SKILL_DRAWS = 2, 24  # masks a picture; with 24, all but a few patches are a target at least once
BATCH = 64


def num_pictures(encoder: VisionTransformer) -> int:
    return max(min(NUM_STATISTICS, TOKEN_LIMIT // encoder.grid.size), FEWEST)


@dataclass(frozen=True)
class Study:
    """A method and the pictures it is shown, both on one device."""

    method: Method
    encoder: VisionTransformer
    shown: Shown

    @cached_property
    def tokens(self) -> Tensor:
        """[S, N, D] of the whole pictures."""
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
    """The predicting half of a method, if it has one: I-JEPA and what is built like it."""
    predictor, encoder = getattr(method, "predictor", None), getattr(method, "context_encoder", None)
    targets, draw_masks = getattr(method, "targets", None), getattr(method, "draw_masks", None)
    if predictor is None or not isinstance(encoder, VisionTransformer) or not callable(targets) or draw_masks is None:
        return None
    error = predictions.squared if getattr(method, "loss", None) == "l2" else predictions.smooth_l1
    return PredictiveModel(encoder.grid, draw_masks, _Predict(predictor, encoder), targets, error)


@dataclass(frozen=True)
class _Predict:
    """Without drop path, which `method.predict` applies as in training."""

    predictor: Any
    encoder: VisionTransformer

    def __call__(self, images: Tensor, masks: Masks) -> Tensor:
        context = self.encoder(images, masks.context, valid=masks.context_valid)  # [B, K, D]
        return self.predictor(context, masks, self.encoder.grid)


def masks_section(study: Study) -> Section | None:
    model = study.model
    if model is None:
        return None
    images = study.shown.crops[:NUM_SHOWN]
    drawn = model.draw_masks(len(images), model.grid, study.generator("masks"))
    generator = study.generator("coverage")
    counted = coverage(model.draw_masks, model.grid, batch_size=64, num_batches=32, generator=generator)
    numbers = (
        f"Over {counted.num_images:,} draws the context holds {counted.context_share:.0%} of the {model.grid} patches, "
        f"and the targets together cover {counted.target_share:.0%}. "
    )
    examples = paragraph(captions.MASKS) + figure_html(masks.figure(images, drawn, model.grid), "masks over pictures")
    chances = paragraph(numbers + captions.COVERAGE) + figure_html(masks.coverage_figure(counted), "coverage by place")
    return Section("masks", "Masks", examples + chances)


def attention_section(study: Study) -> Section:
    encoder, images = study.encoder, study.shown.images[:NUM_ATTENTION]
    queries = attention.busy_and_plain(images, encoder.patch_size)
    drawn = attention.figure(images, encoder.attention(images)[:, :NUM_HEADS], queries, encoder.grid)
    caption = captions.ATTENTION_STILL
    if encoder.size.num_heads > NUM_HEADS:
        caption += f" The first {NUM_HEADS} of {encoder.size.num_heads} heads."
    still = figure_html(drawn, "attention of some patches in the last block", caption)
    return Section("attention", "Attention", paragraph(captions.ATTENTION) + _widget(study) + still)


def _widget(study: Study) -> str:
    data = attention_widget.data(study.encoder, study.shown.images[:NUM_SHOWN])
    if data is None:
        return paragraph("The attention of this model is too large for an interactive figure.", "note")
    return (
        '<div class="widget" id="attention-widget"><noscript>This part needs JavaScript.</noscript></div>'
        f'<script type="application/json" id="attention-data">{data}</script>'
    )


def pca_section(study: Study) -> Section:
    images = study.shown.images[:NUM_SHOWN]
    random = tokens_of(random_like(study.encoder).to(images.device), study.shown.images)
    rows = {}
    for name, tokens in (("trained", study.tokens), ("random", random)):
        rows[name] = tokens[: len(images)]
        if len(study.shown) >= FEWEST:
            rows[f"{name},\nplace removed"] = pca.without_places(tokens[: len(images)], tokens.mean(dim=0))
    drawn = pca.figure(images, rows, study.encoder.grid)
    body = paragraph(captions.PCA) + figure_html(drawn, "principal components of patch tokens")
    return Section("pca", "What patches mean (PCA)", body)


def predictions_section(study: Study) -> Section | None:
    model, crops = study.model, study.shown.crops
    if model is None:
        return None
    if len(crops) < FEWEST:
        text = f"{len(crops)} pictures are too few for a mean of each place; {FEWEST} are needed."
        return Section("predictions", "Predictions", paragraph(text, "note"))
    first = crops[:NUM_SHOWN]
    means = predictions.place_means(model, crops, num_draws=MEAN_DRAWS, generator=study.generator("means"))
    generator = study.generator("skill")
    skill = predictions.prediction_skill(model, first, means, num_draws=SKILL_DRAWS, generator=generator)
    text = (
        f"In {SKILL_DRAWS} draws of masks, patches were hidden and predicted from the rest. "
        f"Over these pictures the skill is <b>{skill.overall:+.2f}</b>. ".replace("-", "−")
        + captions.SKILL
    )
    body = paragraph(text) + figure_html(predictions.figure(first, skill, model.grid), "prediction skill of each patch")
    return Section("predictions", "Predictions", body + _imagined(study, model))


def _imagined(study: Study, model: PredictiveModel) -> str:
    crops = study.shown.crops
    pool = lookup.pool_of(model, crops[NUM_SHOWN:])
    imagined = imagination.imagine(model, crops[:NUM_SHOWN], pool, generator=study.generator("imagined"))
    collages = figure_html(imagination.figure(imagined), "hidden places filled with the patches nearest to predictions")
    patches = figure_html(imagination.patches_figure(imagined), "real patches nearest to single predictions")
    return paragraph(captions.IMAGINED) + collages + paragraph(captions.CLOSER) + patches


def neighbours_section(study: Study) -> Section:
    images = study.shown.images
    queries = torch.arange(min(NUM_QUERIES, len(images)))
    found = neighbours.nearest(study.tokens.mean(dim=1), queries)
    text = (
        f"Of {len(images):,} pictures of the {study.shown.split} split, those whose features are nearest to the first of "
        f"each row. {captions.NEIGHBOURS}"
    )
    body = paragraph(text) + figure_html(neighbours.figure(images, queries, found), "nearest neighbours")
    return Section("neighbours", "Nearest neighbours", body)
