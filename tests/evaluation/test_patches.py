"""The patch dictionary: every step against a slow version that is easy to read, and whole evaluations with it."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import openjepa
import runner
from openjepa.core.errors import BadInput
from openjepa.evaluation.probes import patches
from openjepa.evaluation.probes.patches import PatchDictionary, Settings
from openjepa.runs.scores import PATCHES, PIXELS, RANDOM, TRAINED

SMALL = Settings(num_words=5, num_images=8, num_patches=200, iterations=3, num_scaled=8)


def silent(items, label, total):
    return items


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def learned(images: Tensor, settings: Settings = SMALL) -> PatchDictionary:
    return patches.learn(images.split(3), len(images), settings, silent)


def test_a_triangle_activation_is_the_mean_distance_minus_the_distance() -> None:
    x, words = noise(7, 4), noise(5, 4, seed=1)
    for patch, active in zip(x, patches.triangle(x, words), strict=True):
        away = [float((patch - word).norm()) for word in words]
        expected = [max(0.0, sum(away) / len(away) - one) for one in away]
        assert active.tolist() == pytest.approx(expected, abs=1e-5)


def test_pooling_averages_the_four_quadrants_in_reading_order() -> None:
    active = noise(2, 5, 4, 3)
    top, bottom = slice(0, 3), slice(3, 5)
    left, right = slice(0, 2), slice(2, 4)
    for image, pooled in zip(active, patches.quadrants(active), strict=True):
        expected = [
            float(image[rows, columns, word].mean())
            for rows, columns in ((top, left), (top, right), (bottom, left), (bottom, right))
            for word in range(3)
        ]
        assert pooled.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("chunk", [1, 2**21])
def test_a_step_of_kmeans_moves_every_word_to_the_mean_of_its_patches(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patches, "CHUNK_NUMBERS", chunk)
    x = noise(40, 3)
    words = torch.cat([noise(4, 3, seed=1), torch.full((1, 3), 99.0)])  # nothing is near the last one
    groups: list[list[Tensor]] = [[] for _ in words]
    for patch in x:
        groups[min(range(5), key=lambda word: float((patch - words[word]).norm()))].append(patch)
    expected = [torch.stack(group).mean(dim=0) if group else word for group, word in zip(groups, words, strict=True)]
    moved = patches.kmeans_step(x, words)
    torch.testing.assert_close(moved, torch.stack(expected))
    assert moved[-1].tolist() == [99.0] * 3, "a word without patches stays"


def test_random_patches_are_patches_of_their_image() -> None:
    images = noise(2, 3, 9, 8)
    drawn = patches.random_patches(images, 6, 20, torch.Generator().manual_seed(0))
    for image, rows in zip(images, drawn.split(20), strict=True):
        every = [image[:, row : row + 6, column : column + 6].flatten() for row in range(4) for column in range(3)]
        places = [next(place for place, patch in enumerate(every) if torch.equal(patch, row)) for row in rows]
        assert len(set(places)) > 6, "anywhere in it"


def test_features_are_those_of_a_loop_over_patches() -> None:
    images = noise(4, 3, 13, 12)
    dictionary = learned(images)
    rows, columns = 8, 7
    active = torch.zeros(rows, columns, 5)
    for row in range(rows):
        for column in range(columns):
            patch = images[1, :, row : row + 6, column : column + 6].flatten()
            patch = (patch - patch.mean()) / (patch.var(correction=0) + patches.CONTRAST).sqrt()
            white = (patch - dictionary.mean) @ dictionary.whiten
            active[row, column] = patches.triangle(white[None], dictionary.words)[0]
    expected = (patches.quadrants(active[None])[0] - dictionary.centre) / dictionary.scale
    torch.testing.assert_close(dictionary(images)[1], expected, rtol=1e-4, atol=1e-4)


def test_features_of_the_images_it_learned_from_are_standardised() -> None:
    images = noise(8, 3, 14, 14)
    features = learned(images)(images)
    assert features.shape == (8, 20)
    torch.testing.assert_close(features.mean(dim=0), torch.zeros(20), atol=1e-4, rtol=0)
    torch.testing.assert_close(features.std(dim=0, correction=0), torch.ones(20), atol=1e-3, rtol=0)


@pytest.mark.parametrize("size", [(32, 32), (4, 5), (16, 1000), (224, 224)])
def test_images_of_any_size_give_the_same_number_of_features(size: tuple[int, int]) -> None:
    dictionary = learned(noise(4, 3, *size))
    features = dictionary(noise(2, 3, *size, seed=1))
    assert features.shape == (2, 20) and features.isfinite().all()


def test_constant_images_give_finite_features() -> None:
    images = torch.arange(6.0)[:, None, None, None].expand(6, 3, 16, 16).contiguous()
    assert learned(images)(images).isfinite().all()
    assert learned(noise(6, 3, 16, 16))(images).isfinite().all()


def test_the_same_images_give_the_same_dictionary_and_another_seed_another() -> None:
    images = noise(8, 3, 16, 16)
    first, again, other = (learned(images, dataclasses.replace(SMALL, seed=seed)).words for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_a_saved_dictionary_gives_the_same_features() -> None:
    images = noise(8, 3, 16, 16)
    dictionary = learned(images)
    assert torch.equal(PatchDictionary.load(dictionary.state_dict(), SMALL)(images), dictionary(images))


class Means(nn.Module):
    image_size = 16

    def forward(self, images: Tensor) -> Tensor:
        return images.mean(dim=(2, 3))


@pytest.fixture(scope="module")
def textures(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Horizontal or vertical stripes at a random position: pixels do not tell them, and patches do."""
    random = np.random.default_rng(0)
    labels = np.arange(120) % 2
    images = np.stack([_stripes(bool(label), random) for label in labels]).astype(np.uint8)
    path = tmp_path_factory.mktemp("textures") / "stripes.npz"
    np.savez(path, x_train=images[:80], y_train=labels[:80], x_test=images[80:], y_test=labels[80:])
    return str(path)


def _stripes(is_vertical: bool, random: np.random.Generator) -> np.ndarray:
    wave = np.arange(16) + random.integers(4)
    image = np.broadcast_to(np.where(wave % 4 < 2, 60, 180)[:, None, None], (16, 16, 3))
    return (image.transpose(1, 0, 2) if is_vertical else image) + random.integers(0, 60, (16, 16, 3))


def test_patches_are_measured_on_request_and_cached(
    textures: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE", str(tmp_path))
    scores = openjepa.evaluate(Means(), textures, probe=["knn", "logistic"], baseline="patches")
    names = [score.representation for score in scores]
    assert names == 2 * [PIXELS, RANDOM, PATCHES, TRAINED]
    assert [score.accuracy for score in scores if score.representation == PATCHES] == [1.0, 1.0]
    measured = [score for score in scores if score.representation == PATCHES]
    assert all(score.weights and score.protocol["patches"]["num_words"] == 800 for score in measured)
    assert measured[1].protocol["options"]["every_direction"] is True
    monkeypatch.setattr(patches, "kmeans_step", None)  # a second evaluation would fail if it learned again
    again = openjepa.evaluate(Means(), textures, probe=["knn", "logistic"], baseline="patches")
    assert [score.accuracy for score in again] == [score.accuracy for score in scores]
    assert PATCHES not in {score.representation for score in openjepa.evaluate(Means(), textures, probe="knn")}


def test_each_task_has_a_dictionary_of_its_own(textures: str) -> None:
    tasks = [textures, "scenes-colour"]
    options = {"probe": "knn", "baseline": "patches", "num_train": 40, "num_test": 20, "uses_cache": False}
    both = [score.weights for score in openjepa.evaluate(Means(), tasks, **options) if score.representation == PATCHES]
    alone = [score.weights for score in openjepa.evaluate(Means(), tasks[1], **options)]
    assert len(set(both)) == 2 and both[1] in alone


def test_test_images_and_labels_do_not_change_the_dictionary(textures: str, tmp_path: Path) -> None:
    with np.load(textures) as arrays:
        other = {**arrays, "x_test": 255 - arrays["x_test"], "y_train": arrays["y_train"][::-1]}
    np.savez(tmp_path / "other.npz", **other)
    options = {"probe": "knn", "baseline": "patches", "uses_cache": False}
    hashes = [
        score.weights
        for task in (textures, str(tmp_path / "other.npz"))
        for score in openjepa.evaluate(Means(), task, **options)
        if score.representation == PATCHES
    ]
    assert hashes[0] == hashes[1]


def test_patches_are_neither_tuned_nor_read_from_random_views(textures: str) -> None:
    settings = {"linear": {"epochs": 2, "min_steps": 10}, "finetune": {"epochs": 2, "warmup_epochs": 0}}
    options = {"image_size": 16, "views": 1, "baseline": "patches", "uses_cache": False, "settings": settings}
    scores = openjepa.evaluate("random:vit-nano/8", textures, probe=["linear", "finetune"], **options)
    linear, finetune = ({s.representation: s.protocol for s in scores if s.probe == name} for name in settings)
    assert linear[PATCHES]["views"] == 0 and linear[RANDOM]["views"] == 1
    assert finetune[PATCHES]["probe"] == "logistic" and finetune[RANDOM]["probe"] == "finetune"


def test_an_unknown_baseline_is_refused(textures: str) -> None:
    with pytest.raises(BadInput, match='unknown baseline "pathces"; choose patches .raw pixels and random weights are'):
        openjepa.evaluate(Means(), textures, baseline="pathces")


@pytest.mark.slow
def test_the_command_shows_patches_in_its_table(textures: str) -> None:
    words = ["evaluate", "random:vit-nano/8", "--image-size", "16", "--task", textures, "--probe", "knn"]
    done = runner.command(*words, "--baseline", "patches")
    assert done.returncode == 0 and "patch dictionary" in done.stdout, done.stderr
    rows = json.loads(runner.command(*words, "--baseline", "patches", "--json").stdout)
    assert [row["representation"] for row in rows] == [PIXELS, RANDOM, PATCHES, TRAINED]
    wrong = runner.command(*words, "--baseline", "pixels")
    assert wrong.returncode == 2 and 'unknown baseline "pixels"' in wrong.stderr
