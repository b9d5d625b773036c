"""Whole evaluations on small made-up images: baselines, counts, intervals, leaks, caches, files."""

import dataclasses
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import PIL
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import openjepa
from openjepa.core.contracts import Probe, probes
from openjepa.core.errors import BadInput, OpenJepaError
from openjepa.core.types import Sample
from openjepa.data.abilities import has_files
from openjepa.data.crops import batched
from openjepa.evaluation import encoders, feature_cache, features
from openjepa.evaluation.candidate import open_candidate
from openjepa.evaluation.evaluate import Evaluation
from openjepa.evaluation.probes.baselines import random_like
from openjepa.evaluation.probes.logistic import Logistic
from openjepa.evaluation.request import Request
from openjepa.evaluation.tasks.task import Labelled, Task, open_task
from openjepa.models.sizes import SIZES
from openjepa.models.vit import VisionTransformer
from openjepa.nn import wrappers
from openjepa.runs import scores as scores_file
from openjepa.runs.scores import PIXELS, RANDOM, TRAINED, Score, read
from openjepa.weights import official

pytestmark = pytest.mark.slow

NUM_CLASSES = 4
QUICK = {"linear": {"epochs": 3, "min_steps": 60, "batch_size": 32}}


@pytest.fixture(autouse=True)
def one_thread():
    """Tensors are tiny here: more threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def quarters(number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise whose four classes are told by one thing only: which quarter is a little brighter."""
    random = np.random.default_rng(seed)
    labels = np.arange(number) % NUM_CLASSES
    pixels = random.integers(0, 200, (number, 8, 8, 3))
    for image, label in zip(pixels, labels, strict=True):
        top, left = 4 * (label // 2), 4 * (label % 2)
        image[top : top + 4, left : left + 4] += 55
    return pixels.astype(np.uint8), labels


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "quarters.npz"
    (x, y), (a, b) = quarters(240, 0), quarters(120, 1)
    np.savez(path, x_train=x, y_train=y, x_test=a, y_test=b)
    return str(path)


class Quarters(nn.Module):
    """Knows where to look: the mean of every quarter, scaled by a weight that a reset destroys."""

    image_size = 8

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 4, bias=False)
        nn.init.eye_(self.gate.weight)
        self.calls = 0

    def forward(self, images: Tensor) -> Tensor:
        self.calls += 1
        means = nn.functional.avg_pool2d(images.mean(dim=1, keepdim=True), 4).flatten(1)  # [B, 4]
        return self.gate(means)


class Blind(nn.Module):
    """The same tokens for every image."""

    def forward(self, images: Tensor) -> Tensor:
        return images.new_zeros(len(images), 5, 4) + torch.arange(4.0)


def quick(probe: str) -> dict:
    return QUICK if probe == "linear" else {}


def by(scores: list[Score], probe: str) -> dict[str, Score]:
    return {score.representation: score for score in scores if score.probe == probe}


@pytest.mark.parametrize("probe", ["knn", "logistic", "linear"])
def test_features_that_make_the_task_trivial_reach_100_percent(data: str, probe: str) -> None:
    (score,) = (
        s
        for s in openjepa.evaluate(Quarters(), data, probe=probe, settings=quick(probe))
        if s.representation == TRAINED
    )
    assert score.accuracy == 1.0 and score.interval == (1.0, 1.0)


@pytest.mark.parametrize("probe", ["knn", "logistic", "linear"])
def test_shuffled_labels_fall_to_chance(probe: str, tmp_path: Path) -> None:
    (x, y), (a, b) = quarters(240, 0), quarters(400, 1)
    random = np.random.default_rng(0)
    np.savez(tmp_path / "s.npz", x_train=x, y_train=random.permutation(y), x_test=a, y_test=random.permutation(b))
    for score in openjepa.evaluate(Quarters(), str(tmp_path / "s.npz"), probe=probe, settings=quick(probe)):
        assert score.accuracy == pytest.approx(0.25, abs=0.08), score.representation
        assert score.interval[0] - 0.03 < 0.25 < score.interval[1] + 0.03


def test_a_blind_encoder_stays_at_chance_and_below_its_baselines(data: str) -> None:
    scores = by(openjepa.evaluate(Blind(), data, probe="logistic", image_size=8), "logistic")
    assert scores[TRAINED].accuracy == pytest.approx(0.25) and scores[PIXELS].accuracy > 0.5
    assert scores[TRAINED].gain == 0.0 and scores[TRAINED].gain_interval == (0.0, 0.0)


def test_a_score_carries_everything_needed_to_trust_it(data: str) -> None:
    encoder = Quarters()
    scores = openjepa.evaluate(encoder, data, probe=["knn", "linear"], settings=QUICK)
    assert [(s.probe, s.representation) for s in scores] == [
        (probe, name) for probe in ("knn", "linear") for name in (PIXELS, RANDOM, TRAINED)
    ]
    score = scores[-1]
    assert (score.num_train, score.num_labels, score.num_test, score.num_classes) == (240, 240, 120, 4)
    assert score.chance == 0.25 and score.labels == "all" and score.seeds == (0,) and score.spread is None
    assert score.protocol["options"]["epochs"] == 3 and score.protocol["chosen"][0]["validation_accuracy"] == 1.0
    assert score.protocol["split"] == "the data set's own" and "8×8" in score.protocol["pictures"]
    assert len(score.weights) == 64 and score.weights != scores[-2].weights
    assert len(score.data["train"]) == 64 and score.data["train"] != score.data["test"]
    assert score.leaks["training"] == 0 and score.leaks["pretraining"] is None and "not known" in score.leaks["reason"]
    assert score.gain == pytest.approx(score.accuracy - scores[-2].accuracy) and score.made["version"]
    assert score.metric == "accuracy" and score.balanced_accuracy == 1.0
    assert json.loads(json.dumps(score.as_dict()))["task"] == data


def test_the_baseline_of_a_foreign_module_has_new_weights_and_leaves_the_module_alone() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.token = nn.Linear(3, 3), nn.Parameter(torch.arange(3.0))
            self.scale = nn.Parameter(torch.ones(3))

    module = Both()
    before = [parameter.clone() for parameter in module.parameters()]
    state = torch.get_rng_state()
    fresh, again = random_like(module), random_like(module)
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))
    for (name, old), new, same in zip(module.named_parameters(), fresh.parameters(), again.parameters(), strict=True):
        # A scale of ones is where it started: noise instead would cripple the baseline.
        assert torch.equal(old, new) == (name == "scale") and torch.equal(new, same)
    assert torch.equal(state, torch.get_rng_state())


class Delegates(nn.Module):
    """Somebody's wrapper that passes attributes on, as torch.compile's does."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def __getattr__(self, name: str) -> object:
        return super().__getattr__(name) if name == "inner" else getattr(self.inner, name)

    def forward(self, images: Tensor) -> Tensor:
        return self.inner(images)


@pytest.mark.parametrize("wrap", [torch.compile, nn.DataParallel, Delegates])
def test_wrappers_hide_nothing_that_evaluation_reads(wrap: Callable[[nn.Module], nn.Module]) -> None:
    encoder = VisionTransformer(SIZES["nano"], patch_size=4, image_size=(8, 8)).eval()
    candidate = open_candidate(wrap(encoder))
    assert candidate.image_size == (8, 8)
    with pytest.raises(BadInput, match="not a multiple of the encoder's patch size 4"):
        open_candidate(wrap(encoder), image_size=9)
    if wrap is not Delegates:  # torch's own: the same features and the same baseline as without them
        images, plain = torch.rand(2, 3, 8, 8), open_candidate(encoder)
        for one, other in ((candidate.encoder, encoder), (candidate.random, plain.random)):
            assert torch.equal(encoders.pool_features(one, images), encoders.pool_features(other, images))
            assert encoders.width(one, torch.zeros(2, 4 * encoder.dim)) == encoder.dim
    assert wrappers.attribute(wrap(Quarters()), "image_size") == 8
    assert wrappers.attribute(wrap(Blind()), "image_size") is None


def test_a_probe_without_a_file_is_fitted_every_time(data: str) -> None:
    code = """
@probes.register("typed-in")
@dataclass(kw_only=True)
class TypedIn(Probe):
    def fit(self, train):
        return self
    def predict(self, test):
        return torch.full_like(test.labels, guess)
"""
    for guess in (0, NUM_CLASSES):  # as at the interactive prompt: no file, and the second version guesses differently
        names = {"__name__": "typed_in", "probes": probes, "Probe": Probe, "dataclass": dataclasses.dataclass}
        exec(code, {**names, "torch": torch, "guess": guess})
        scores = openjepa.evaluate(Quarters(), data, probe="typed-in", settings=None)
        assert {score.accuracy for score in scores} == {0.25 if guess == 0 else 0.0}
        probes.forget("typed_in")


def test_a_baseline_can_be_given(data: str) -> None:
    scores = by(openjepa.evaluate(Quarters(), data, probe="knn", random=Quarters()), "knn")
    assert scores[RANDOM].accuracy == scores[TRAINED].accuracy == 1.0 and scores[TRAINED].gain == 0.0


def test_features_are_extracted_once_for_the_same_weights_images_and_crop(data: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE", str(tmp_path))
    encoder = Quarters()
    first = openjepa.evaluate(encoder, data, probe="knn")
    once = encoder.calls
    second = openjepa.evaluate(encoder, data, probe="logistic")
    assert encoder.calls == once + 1, "one call for the fingerprint of its behaviour, none for features"
    assert by(first, "knn")[TRAINED].weights == by(second, "logistic")[TRAINED].weights
    with torch.no_grad():
        encoder.gate.weight *= 2
    openjepa.evaluate(encoder, data, probe="knn")
    assert encoder.calls > once + 2, "other weights"
    count = encoder.calls
    openjepa.evaluate(encoder, data, probe="knn", uses_cache=False)
    assert encoder.calls > count + 1, "no cache"


def test_cached_and_fresh_features_give_the_same_scores(data: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE", str(tmp_path))
    rows = [openjepa.evaluate(Quarters(), data, probe="logistic", uses_cache=cached) for cached in (True, True, False)]
    assert len({tuple(score.accuracy for score in row) for row in rows}) == 1


def test_probes_on_the_baselines_are_fitted_once_and_those_on_the_encoder_each_time(
    data: str, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE", str(tmp_path))
    fits, fit = [], Logistic.fit
    monkeypatch.setattr(Logistic, "fit", lambda probe, train: (fits.append(len(train.labels)), fit(probe, train))[1])
    first = openjepa.evaluate(Quarters(), data, probe="logistic", labels="5/class")
    assert fits == [20] * 9, "three representations, three draws of labels"
    second = openjepa.evaluate(Quarters(), data, probe="logistic", labels="5/class")
    assert len(fits) == 12 and second[2].representation == TRAINED
    names = ("accuracy", "interval", "seeds", "protocol")
    for name in names:
        assert [getattr(one, name) for one in first] == [getattr(one, name) for one in second]
    assert [one.seconds for one in first[:2]] == [one.seconds for one in second[:2]], "the time of the first fit"
    openjepa.evaluate(
        Quarters(), data, probe="logistic", labels="5/class", settings={"logistic": {"max_iterations": 50}}
    )
    assert len(fits) == 21, "another probe"
    openjepa.evaluate(Quarters(), data, probe="logistic", labels="5/class", uses_cache=False)
    assert len(fits) == 30, "no cache"


def test_the_same_images_in_another_crop_are_other_features(data: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE", str(tmp_path))
    encoder = Quarters()
    openjepa.evaluate(encoder, data, probe="knn", image_size=8)
    count = encoder.calls
    encoder.forward(torch.zeros(1, 3, 8, 8))
    openjepa.evaluate(encoder, data, probe="linear", image_size=8, views=1, settings=QUICK)
    assert encoder.calls > count + 2


@pytest.mark.parametrize("draws", [None, 2])
def test_a_label_budget_is_drawn_several_times_with_its_spread(data: str, draws: int | None) -> None:
    scores = by(openjepa.evaluate(Quarters(), data, probe="logistic", labels="2/class", draws=draws), "logistic")
    expected = tuple(range(draws or 3))
    assert scores[PIXELS].seeds == expected and scores[PIXELS].num_labels == 8 and scores[PIXELS].num_train == 240
    assert scores[PIXELS].spread is not None and scores[PIXELS].labels == "2/class"
    assert scores[TRAINED].accuracy > scores[PIXELS].accuracy
    low, high = scores[PIXELS].interval
    assert low <= scores[PIXELS].accuracy <= high


def test_a_small_budget_extracts_only_the_images_it_needs(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    extract = features.extract
    monkeypatch.setattr(
        feature_cache.features,
        "extract",
        lambda pictures, index, *a, **k: (seen.append(len(index)), extract(pictures, index, *a, **k))[1],
    )
    openjepa.evaluate(Quarters(), data, probe="knn", labels="1/class", draws=1, uses_cache=False)
    assert sorted(seen) == [4, 120]


def test_several_seeds_without_a_budget_repeat_only_what_is_random(data: str) -> None:
    scores = openjepa.evaluate(Quarters(), data, probe=["knn", "linear"], draws=2, settings=QUICK)
    assert by(scores, "knn")[TRAINED].seeds == (0,) and by(scores, "linear")[TRAINED].seeds == (0, 1)


def test_test_images_among_the_training_images_are_counted_with_a_warning(tmp_path: Path, capsys) -> None:
    (x, y), (a, b) = quarters(80, 0), quarters(40, 1)
    a[:3] = x[10:13]
    np.savez(tmp_path / "leak.npz", x_train=x, y_train=y, x_test=a, y_test=b)
    score = openjepa.evaluate(Quarters(), str(tmp_path / "leak.npz"), probe="knn")[-1]
    assert score.leaks["training"] == 3
    assert "warning: 3 of 40 test images" in capsys.readouterr().err
    silent = openjepa.evaluate(Quarters(), str(tmp_path / "leak.npz"), probe="knn", checks_leaks=False)[-1]
    assert silent.leaks["training"] is None and "warning" not in capsys.readouterr().err


@pytest.mark.parametrize("labels", [None, "3/class"])
def test_fine_tuning_is_compared_with_the_same_baselines(data: str, labels: str | None) -> None:
    torch.manual_seed(0)
    encoder = VisionTransformer(SIZES["nano"], patch_size=4, image_size=(8, 8), patch_init=0.2)
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    settings = {"finetune": {"epochs": 2, "warmup_epochs": 0, "lr": 1e-3, "batch_size": 64}}
    scores = by(
        openjepa.evaluate(encoder, data, probe="finetune", labels=labels, draws=1, settings=settings), "finetune"
    )
    assert set(scores) == {PIXELS, RANDOM, TRAINED} and scores[TRAINED].features == "all weights"
    assert scores[TRAINED].protocol["options"]["layer_decay"] == 0.75
    assert scores[TRAINED].protocol["options"]["label_smoothing"] == 0.1
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())


def test_the_last_four_blocks_can_be_evaluated(data: str) -> None:
    torch.manual_seed(0)
    encoder = VisionTransformer(SIZES["nano"], patch_size=4, image_size=(8, 8))
    last, four = (openjepa.evaluate(encoder, data, probe="knn", features=kind)[-1] for kind in ("last", "last4"))
    assert (last.features, four.features) == ("last", "last4") and last.accuracy != four.accuracy


def test_broken_images_are_left_out_of_training_and_test(tmp_path: Path, capsys) -> None:
    (x, y) = quarters(40, 0)
    for split, rows in (("train", slice(0, 24)), ("val", slice(24, 40))):
        for number, (pixels, label) in enumerate(zip(x[rows], y[rows], strict=True)):
            folder = tmp_path / split / str(label)
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(folder / f"{number}.png")
    for split, number in (("train", 0), ("val", 0)):
        (tmp_path / split / "0" / f"{number}.png").write_bytes(b"broken")
    scores = openjepa.evaluate(Quarters(), str(tmp_path), probe=["knn", "logistic"])
    assert {score.num_test for score in scores} == {15} and by(scores, "logistic")[TRAINED].accuracy == 1.0
    assert "1 images cannot be decoded" in capsys.readouterr().err


def test_features_that_are_not_finite_are_refused(data: str) -> None:
    encoder = Quarters()
    with torch.no_grad():
        encoder.gate.weight[0, 0] = torch.nan
    with pytest.raises(OpenJepaError, match="the features of the trained are not finite"):
        openjepa.evaluate(encoder, data, probe="knn")


def save_in_folders(folder: Path, number: int, side: int = 8) -> Path:
    """The quarters as PNG files, 3 in 5 of them for training."""
    x, y = quarters(number, 0)
    for index, (pixels, label) in enumerate(zip(x, y, strict=True)):
        path = folder / ("train" if index < 0.6 * number else "val") / str(label)
        path.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).resize((side, side)).save(path / f"{index}.png")
    return folder


def test_a_class_without_a_valid_labelled_image_is_refused(tmp_path: Path) -> None:
    folder = save_in_folders(tmp_path, 40)
    for path in (folder / "train" / "2").iterdir():
        path.write_bytes(b"broken")
    with pytest.raises(BadInput, match="1 of 4 classes of .* have no labelled image that can be decoded"):
        openjepa.evaluate(Quarters(), str(folder), probe="knn")


def test_a_test_set_of_broken_images_only_is_refused(tmp_path: Path) -> None:
    folder = save_in_folders(tmp_path, 40) / "train"  # without a test split: some images of the folder are the test set
    test = open_task(str(folder), image_size=(8, 8)).test
    assert has_files(test.source)
    for index in test.index.tolist():
        test.source.path(index).write_bytes(b"broken")
    message = f"none of the {len(test.index)} test images of .* can be decoded; list them with openjepa data check"
    for probe in ("knn", "finetune"):
        with pytest.raises(BadInput, match=message):
            openjepa.evaluate(Quarters(), str(folder), probe=probe)


def test_another_version_of_pillow_extracts_features_of_files_again(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE", str(tmp_path / "cache"))
    folder, encoder = str(save_in_folders(tmp_path / "p", 40)), Quarters()
    openjepa.evaluate(encoder, folder, probe="knn")
    for version, num_calls in ((PIL.__version__, 1), ("other", 3)):  # one call for the fingerprint of its behaviour
        monkeypatch.setattr(PIL, "__version__", version)
        count = encoder.calls
        openjepa.evaluate(encoder, folder, probe="knn")
        assert encoder.calls == count + num_calls


class SameNames:
    """Somebody's own source that uses the names of abilities for other things."""

    path = "/data/root"

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.pixels, self.labels = [f"{index}.png" for index in range(len(images))], images, labels

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> Sample:
        return Sample(self.pixels[index], {"class": int(self.labels[index])})

    def all_labels(self) -> dict[str, Tensor]:
        return {"class": self.labels}

    def fingerprint(self) -> str:
        return "same names"


@pytest.mark.parametrize("probe", ["knn", "finetune"])
def test_a_source_with_attributes_named_like_abilities_is_read_by_index(probe: str) -> None:
    x, y = quarters(40, 0)
    source = SameNames(torch.from_numpy(x).permute(0, 3, 1, 2), torch.from_numpy(y))
    part = Labelled(source, torch.arange(40), source.labels)
    definition = open_task("scenes-colour", image_size=(8, 8)).definition
    task = Task(name="own", definition=definition, train=part, test=part, split="all", num_classes=4)
    request = Request(probe=probe, uses_cache=False, settings={"finetune": {"epochs": 1, "warmup_epochs": 0.0}})
    candidate = open_candidate(Quarters(), which=request.encoder, image_size=None, random=None)
    scores = Evaluation(candidate, request).run([task])
    assert scores[-1].num_test == 40 and scores[-1].leaks["training"] == 40


def test_files_are_resized_and_cropped_as_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a PNG file through the extractor to what an encoder sees, against Pillow's resize 256, crop 224."""
    noise = np.random.default_rng(0).integers(0, 256, (384, 576, 3), dtype=np.uint8)
    for part in ("train", "val"):
        for wnid in ("n00000001", "n00000002"):
            (tmp_path / part / wnid).mkdir(parents=True)
            Image.fromarray(noise).save(tmp_path / part / wnid / "x.png")
    seen: list[Tensor] = []

    class Camera(nn.Module):
        image_size = 224

        def forward(self, images: Tensor) -> Tensor:
            seen.append(images)
            return images.mean(dim=(2, 3))

    openjepa.evaluate(Camera(), f"imagenet1k:{tmp_path}", probe="knn", checks_leaks=False, uses_cache=False)
    small = Image.fromarray(noise).resize((384, 256), Image.Resampling.BILINEAR)
    cut = np.asarray(small.crop((80, 16, 304, 240))).astype(np.float32)
    pixels = batched.normalise(torch.from_numpy(cut).permute(2, 0, 1)[None])
    difference = (seen[-1][:1] - pixels).abs()
    assert difference.mean() < 0.03 and seen[-1].std() == pytest.approx(pixels.std().item(), rel=0.02)


def test_a_list_of_labels_is_not_drawn_again(tmp_path: Path) -> None:
    folder = save_in_folders(tmp_path / "p", 40)
    names = sorted(str(path.relative_to(folder)) for path in (folder / "train").rglob("*.png"))
    (tmp_path / "list.txt").write_text("\n".join(names[::2]))
    scores = openjepa.evaluate(Quarters(), str(folder), probe="knn", labels=str(tmp_path / "list.txt"), draws=3)
    assert scores[-1].seeds == (0,) and scores[-1].num_labels == 12 and scores[-1].num_train == 24


def test_a_budget_uses_cached_features_of_the_whole_set(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE", str(tmp_path / "cache"))
    folder, encoder = str(save_in_folders(tmp_path / "p", 40)), Quarters()
    openjepa.evaluate(encoder, folder, probe="knn")
    count = encoder.calls
    openjepa.evaluate(encoder, folder, probe="knn", labels="2/class", draws=5)
    assert encoder.calls == count + 1, "one call for the fingerprint of its behaviour"


def test_views_are_for_the_linear_probe_of_encoders_and_work_with_a_budget(data: str) -> None:
    scores = by(
        openjepa.evaluate(Quarters(), data, probe="linear", views=2, labels="10/class", draws=1, settings=QUICK),
        "linear",
    )
    assert scores[TRAINED].protocol["views"] == 2 and scores[PIXELS].protocol["views"] == 0
    assert scores[TRAINED].protocol["chosen"][0]["steps"] >= 60


def test_two_processes_may_save_scores_at_once(tmp_path: Path) -> None:
    folder = scores_file.RunFolder(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        rows = [row(probe=f"probe{number}", weights="w") for number in range(40)]
        list(pool.map(lambda score: scores_file.store(folder, [score]), rows))
    assert len(read(scores_file.file_of(folder, "t"))) == 40


def test_a_score_comes_back_from_disk_as_it_was(tmp_path: Path) -> None:
    score = row(gain=0.1, gain_interval=(-0.1, 0.3), seeds=(0, 1), spread=0.02, protocol={"about": "x"}, labels="1%")
    scores_file.store(scores_file.RunFolder(tmp_path), [score])
    assert read(scores_file.file_of(scores_file.RunFolder(tmp_path), "t")) == [score]


def test_rows_of_other_versions_load(tmp_path: Path) -> None:
    """A missing key gets its default, an unknown one stays in the file."""
    old = {"task": "t", "probe": "knn", "representation": "trained", "accuracy": 0.5, "chance": 0.1, "colour": "red"}
    (tmp_path / "x.json").write_text(json.dumps([{**old, "spread": None, "leaks": None}]))
    (score,) = read(tmp_path / "x.json")
    assert (score.interval, score.labels, score.seeds, score.leaks) == (None, "all", (0,), {})
    assert score.text == "50.0" and score.gain_text == "–" and score.extra == {"colour": "red"}
    scores_file.store(scores_file.RunFolder(tmp_path), [score])
    (written,) = json.loads(scores_file.file_of(scores_file.RunFolder(tmp_path), "t").read_text())
    assert written["colour"] == "red" and "extra" not in written


def test_a_score_is_written_with_spread_and_interval() -> None:
    score = row(spread=0.012, gain=0.05, gain_interval=(-0.01, 0.11))
    assert score.text == "50.0 ± 1.2 [40.0, 60.0]" and score.gain_text == "+5.0 [-1.0, +11.0]"


def row(**changes: object) -> Score:
    values = {"task": "t", "probe": "knn", "representation": TRAINED, "accuracy": 0.5, "interval": (0.4, 0.6)}
    return Score(**{**values, "chance": 0.1, **changes})  # type: ignore[arg-type]


def test_rows_that_are_no_scores_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(
        '[{"task": "t"}, {"task": "t", "probe": "knn", "representation": "trained", "accuracy": null, "chance": 0}, 3]'
    )
    assert read(tmp_path / "x.json") == []
    bad: tuple[dict[str, object], ...] = ({"task": None}, {"probe": None}, {"interval": "x"}, {"chance": None})
    rows = [row().as_dict(), *(row().as_dict() | change for change in bad)]
    (tmp_path / "x.json").write_text(json.dumps(rows))
    assert read(tmp_path / "x.json") == [row()]


def test_scores_that_cannot_be_saved_are_returned_with_a_warning(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(
        "openjepa.evaluation.evaluate.store", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    assert openjepa.evaluate(run, "scenes-count", probe="knn", **SMALL)
    assert "No space left on device" in capsys.readouterr().err


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "one"
    settings = {
        "data": {"source": "scenes:64", "image_size": 32, "workers": 0},
        "model": {"name": "vit-nano/8"},
        "train": {"steps": 2, "batch_size": 16},
    }
    openjepa.pretrain(settings, folder)
    return folder


SMALL = {"num_train": 80, "num_test": 40}


def test_scores_of_a_run_are_saved_and_new_ones_are_added(run: Path) -> None:
    openjepa.evaluate(run, "scenes-count", probe="knn", **SMALL)
    openjepa.evaluate(run, "scenes-count", probe="logistic", **SMALL)
    openjepa.evaluate(run, "scenes-count", probe="logistic", labels="2/class", **SMALL)
    openjepa.evaluate(run, "scenes-count", probe="knn", **SMALL)
    rows = read(run / "evals" / "scenes-count.json")
    kinds = [(row.probe, row.labels, row.representation) for row in rows]
    assert len(kinds) == len(set(kinds)) == 9
    assert rows[0].leaks == {"training": 0, "pretraining": 0, "reason": ""}


def test_scores_of_other_weights_are_removed(run: Path) -> None:
    openjepa.evaluate(run, "scenes-dist", probe="knn", **SMALL)
    path = run / "evals" / "scenes-dist.json"
    rows = json.loads(path.read_text())
    path.write_text(
        json.dumps(
            [{**row, "weights": "old" if row["representation"] == "trained" else row["weights"]} for row in rows]
        )
    )
    openjepa.evaluate(run, "scenes-dist", probe="logistic", **SMALL)
    assert {row.probe for row in read(path)} == {"logistic"}


def test_a_damaged_file_of_scores_is_reported_before_any_work(run: Path) -> None:
    path = run / "evals" / "scenes-shape.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text('[{"task"')
    with pytest.raises(BadInput, match="scenes-shape.json cannot be read .*; fix or delete it, then evaluate again"):
        openjepa.evaluate(run, "scenes-shape", probe="knn", **SMALL)
    path.unlink()


def test_a_task_with_a_very_long_path_has_a_file_of_a_possible_length() -> None:
    folder = scores_file.RunFolder(Path("run"))
    long, other = "/photos" * 60, "/photos" * 60 + "!"
    names = [scores_file.file_of(folder, task).name for task in ("scenes-count", "a/b:c", long, other)]
    assert names[:2] == ["scenes-count.json", "a_b_c.json"] and names[2] != names[3] and max(map(len, names)) < 120


def test_the_target_encoder_is_evaluated_unless_the_context_encoder_is_requested(run: Path) -> None:
    method = openjepa.load(run)
    target, context = (
        openjepa.evaluate(run, "scenes-count", probe="knn", encoder=which, **SMALL)[-1]
        for which in ("target", "context")
    )
    hashes = [feature_cache.encoders.weights_hash(part) for part in (method.target_encoder, method.context_encoder)]
    assert [target.weights, context.weights] == hashes
    assert (target.encoder, context.encoder) == ("target encoder", "context encoder")


def test_images_seen_in_pretraining_are_counted(tmp_path: Path, capsys) -> None:
    x, y = quarters(40, 0)
    for number, (pixels, label) in enumerate(zip(x, y, strict=True)):
        folder = tmp_path / "images" / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).resize((32, 32)).save(folder / f"{number}.png")
    settings = {
        "data": {"source": str(tmp_path / "images"), "image_size": 32, "workers": 0},
        "model": {"name": "vit-nano/8"},
        "train": {"steps": 1, "batch_size": 8},
    }
    openjepa.pretrain(settings, tmp_path / "run")
    score = openjepa.evaluate(tmp_path / "run", str(tmp_path / "images"), probe="knn")[-1]
    assert score.leaks == {"training": 0, "pretraining": 8, "reason": ""}
    assert "8 of 8 test images" in capsys.readouterr().err
    (tmp_path / "images").rename(tmp_path / "moved")
    score = openjepa.evaluate(tmp_path / "run", str(tmp_path / "moved"), probe="knn")[-1]
    assert score.leaks["pretraining"] is None and "cannot be opened" in score.leaks["reason"]


def test_fresh_weights_and_official_archives_can_be_evaluated(run: Path, tmp_path: Path) -> None:
    score = openjepa.evaluate("random:vit-nano/8", "scenes-count", probe="knn", image_size=32, **SMALL)[-1]
    assert score.encoder == "fresh weights"
    method = openjepa.load(run)
    archive = tmp_path / "x.pth.tar"
    official.write(
        archive,
        context_encoder=method.context_encoder,
        target_encoder=method.target_encoder,
        predictor=method.predictor,
    )
    ours, theirs = (openjepa.evaluate(path, "scenes-count", probe="knn", **SMALL)[-1] for path in (run, archive))
    assert ours.accuracy == theirs.accuracy and theirs.leaks["pretraining"] is None


def test_another_resolution_than_the_runs_can_be_evaluated(run: Path) -> None:
    score = openjepa.evaluate(run, "scenes-count", probe="knn", image_size=16, **SMALL)[-1]
    assert "16×16" in score.protocol["pictures"]
    with pytest.raises(BadInput, match="image size 20×20 is not a multiple of the encoder's patch size 8"):
        openjepa.evaluate(run, "scenes-count", image_size=20, **SMALL)


def test_all_means_every_task_whose_data_are_there(run: Path, capsys) -> None:
    scores = openjepa.evaluate(run, "all", probe="knn", **SMALL)
    assert {score.task for score in scores} == {
        f"scenes-{name}" for name in ("count", "dist", "shape", "colour", "material")
    }
    printed = capsys.readouterr().err
    assert "skipped" in printed and "imagenet1k" in printed and "OPENJEPA_DATA" in printed


def test_weights_of_another_architecture_are_refused_in_one_sentence(run: Path, tmp_path: Path) -> None:
    import shutil

    from safetensors.torch import load_file, save_file

    other = tmp_path / "other"
    shutil.copytree(run, other, ignore=shutil.ignore_patterns("checkpoints", "evals"))
    config = (other / "config.yaml").read_text()
    (other / "config.yaml").write_text(config.replace("vit-nano/8", "vit-micro/8"))
    with pytest.raises(BadInput, match="weights.safetensors holds a vit-nano/8, but .*config.yaml says vit-micro/8"):
        openjepa.evaluate(other, "scenes-count", **SMALL)
    foreign = tmp_path / "foreign.safetensors"
    save_file(load_file(run / "weights.safetensors"), foreign)
    with pytest.raises(BadInput, match="has no OpenJEPA config"):
        openjepa.evaluate(foreign, "scenes-count", **SMALL)
    torch.save({"model": {"conv1.weight": torch.zeros(1)}}, tmp_path / "resnet.pth")
    with pytest.raises(BadInput, match="is not an I-JEPA archive; expected the keys"):
        openjepa.evaluate(tmp_path / "resnet.pth", "scenes-count", **SMALL)


def test_a_request_gives_the_scores_of_its_options_and_options_change_it(data: str) -> None:
    request = Request(probe="knn", labels="2/class", draws=1)
    by_request, by_options = (
        openjepa.evaluate(Quarters(), data, request=request),
        openjepa.evaluate(Quarters(), data, probe="knn", labels="2/class", draws=1),
    )
    assert [score.accuracy for score in by_request] == [score.accuracy for score in by_options]
    changed = openjepa.evaluate(Quarters(), data, request=request, draws=2)
    assert changed[-1].seeds == (0, 1) and changed[-1].labels == "2/class"


def test_settings_may_be_written_as_on_the_command_line() -> None:
    request = Request(settings=["linear.epochs=3", "linear.batch_size=32"])
    assert request.probe_options == {"linear": {"epochs": 3, "batch_size": 32}}


def test_every_option_of_a_request_is_explained() -> None:
    explained = [line.split(":")[0].strip() for line in (Request.__doc__ or "").splitlines() if ": " in line]
    assert explained == [each.name for each in dataclasses.fields(Request)]


def test_wrong_requests_are_refused_before_any_work(data: str) -> None:
    requests = {
        'unknown option "probes" of evaluate; did you mean "probe"': {"probes": "knn"},
        'unknown probe "lnear"; did you mean "linear"': {"probe": "lnear"},
        'unknown setting "linear.epoch"; did you mean "epochs"': {
            "probe": "linear",
            "settings": {"linear": {"epoch": 3}},
        },
        'unknown probe "liner"': {"settings": {"liner": {"epochs": 3}}},
        "draws is 0": {"draws": 0},
        "draws is '3'; expected a whole number": {"draws": "3"},
        'settings is "linear.epochs=3"; expected a list': {"settings": "linear.epochs=3"},
        "views is -1": {"views": -1},
        "only linear learns from random crops": {"probe": "knn", "views": 2},
        "settings for linear, which is not among the probes": {"probe": "knn", "settings": QUICK},
        'the settings of knn are "5"': {"probe": "knn", "settings": {"knn": 5}},
        "linear.seed cannot be set": {"probe": "linear", "settings": {"linear": {"seed": 7}}},
        "no probe is given": {"probe": []},
        'features is "last5"': {"features": "last5"},
        '--labels "" is neither': {"labels": ""},
        "image size is (16,)": {"image_size": (16,)},
        "num_train is 3, but": {"num_train": 3},
        "has no blocks that can be read": {"features": "last4"},
        "--labels": {"labels": "few"},
        "would never be used": {"probe": "finetune", "settings": {"finetune": {"epochs": 3}}},
    }
    encoder = Quarters()
    for expected, options in requests.items():
        with pytest.raises(BadInput) as error:
            openjepa.evaluate(encoder, data, **options)
        assert expected in str(error.value)
    assert encoder.calls == 0


def test_a_module_without_an_image_size_needs_one(data: str) -> None:
    with pytest.raises(BadInput, match="the encoder Blind has no attribute image_size"):
        openjepa.evaluate(Blind(), data)
    with pytest.raises(BadInput, match="random:vit-nano/8 has no image size of its own"):
        openjepa.evaluate("random:vit-nano/8", data)
