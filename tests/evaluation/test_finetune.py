"""Fine-tuning: rates by depth by hand, what is learned, and what must stay untouched."""

import copy
import dataclasses
import math
from pathlib import Path
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import openjepa
import runner
from openjepa.core import schema, seeding
from openjepa.core.contracts import Source
from openjepa.core.errors import BadInput, OpenJepaError
from openjepa.core.types import Sample
from openjepa.data.batches.build import open_images
from openjepa.data.crops import batched
from openjepa.data.crops.evaluation import EvaluationCrop
from openjepa.data.crops.randaugment import RandAugment
from openjepa.data.open import open_source
from openjepa.data.sources.arrays import ArraySource
from openjepa.evaluation import features, probing
from openjepa.evaluation.probes import layer_decay
from openjepa.evaluation.probes.finetune import Finetune, mean_loss
from openjepa.evaluation.training_views import Stream, Views
from openjepa.models.vit import VisionTransformer
from openjepa.runs.scores import PIXELS, RANDOM, TRAINED

SIZE = (16, 16)
CROP = EvaluationCrop(SIZE)
QUICK = {"epochs": 12, "warmup_epochs": 1.0, "lr": 5e-3, "batch_size": 16}


@dataclasses.dataclass(frozen=True)
class Set:
    source: Source
    index: Tensor
    labels: Tensor


def red_or_blue(number: int = 64, seed: int = 0) -> Set:
    """Noise with a red tint (class 0) or a blue one (class 1)."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 80, (number, 3, *SIZE), generator=generator, dtype=torch.uint8)
    labels = torch.randint(2, (number,), generator=generator)
    images[torch.arange(number), 2 * labels] += 150
    return Set(ArraySource("tints", images), torch.arange(number), labels)


def fitted(encoder: nn.Module, data: Set, **options: object) -> Finetune:
    images = open_images(data.source, (CROP.random(),))
    return Finetune(**{**QUICK, **options}).fit(encoder, images, data.index, data.labels)


def predicted(probe: Finetune, data: Set) -> Tensor:
    return probe.predict(open_images(data.source, (CROP,)), data.index)


def accuracy(probe: Finetune, data: Set) -> float:
    return (predicted(probe, data) == data.labels).float().mean().item()


class Foreign(nn.Module):
    """Somebody else's encoder: no blocks, one vector an image, dropout, which draws from the global generator."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * 16 * 16, 8)
        self.dropout = nn.Dropout(0.2)

    def forward(self, images: Tensor) -> Tensor:
        return self.dropout(self.linear(images.flatten(1)))


def scales(encoder: nn.Module) -> dict[str, tuple[float, float]]:
    """Of every parameter by name: factor of the rate, weight decay."""
    head = nn.Linear(16, 2)
    names = {id(value): name for name, value in [*encoder.named_parameters(), *head.named_parameters(prefix="head")]}
    groups = layer_decay.groups(encoder, head, decay=0.75, weight_decay=0.05)
    by_name = {
        names[id(value)]: (group["scale"], group["weight_decay"]) for group in groups for value in group["params"]
    }
    assert set(by_name) == set(names.values())
    return by_name


def test_factors_by_hand_for_two_blocks(tiny_encoder: VisionTransformer) -> None:
    by_name = scales(tiny_encoder)
    assert by_name["patch_embed.weight"] == (0.75**3, 0.05)
    assert by_name["blocks.0.attn.proj.weight"] == (0.75**2, 0.05)
    assert by_name["blocks.0.norm1.weight"] == (0.75**2, 0.0)
    assert by_name["blocks.1.mlp.fc2.bias"] == (0.75, 0.0)
    assert by_name["norm.weight"] == (1.0, 0.0)
    assert by_name["head.weight"] == (1.0, 0.05) and by_name["head.bias"] == (1.0, 0.0)


@pytest.mark.parametrize("name", ["patch_embed.weight", "pos_embed", "cls_token", "mask_token", "embeddings.weight"])
def test_everything_before_the_blocks_is_layer_zero(name: str) -> None:
    assert layer_decay.factor(name, 12, 0.75) == 0.75**13
    assert layer_decay.factor("blocks.11.norm1.bias", 12, 0.75) == 0.75


def test_an_encoder_without_blocks_has_one_rate() -> None:
    assert scales(Foreign()) == {
        "linear.weight": (1.0, 0.05),
        "linear.bias": (1.0, 0.0),
        "head.weight": (1.0, 0.05),
        "head.bias": (1.0, 0.0),
    }


def test_the_steps_use_the_schedule_times_the_factors(
    tiny_encoder: VisionTransformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[float, float]] = []

    def note(optimizer: torch.optim.Optimizer) -> None:
        seen.append({group["scale"]: group["lr"] for group in optimizer.param_groups})

    monkeypatch.setattr(torch.optim.AdamW, "step", note)
    fitted(tiny_encoder, red_or_blue(32), epochs=4, warmup_epochs=2.0, lr=0.08, final_lr=0.0)
    assert len(seen) == 8  # 2 an epoch, 4 of them warm-up
    assert seen[0] == pytest.approx({0.75**3: 0.02 * 0.75**3, 0.75**2: 0.02 * 0.75**2, 0.75: 0.02 * 0.75, 1.0: 0.02})
    assert [rates[1.0] for rates in seen[3:]] == pytest.approx([0.08, 0.0682843, 0.04, 0.0117157, 0.0], abs=1e-6)


@pytest.mark.parametrize("augment", [False, True])
def test_a_plain_difference_is_learned_and_the_loss_falls(tiny_encoder: VisionTransformer, augment: bool) -> None:
    probe = fitted(tiny_encoder, red_or_blue(), augment=augment)
    assert len(probe.losses) == 12 and probe.losses[-1] < 0.9 * probe.losses[0]
    assert probe.losses[0] == pytest.approx(0.69, abs=0.1)  # a small head starts from "I do not know"
    assert accuracy(probe, red_or_blue(200, seed=1)) == 1.0
    assert probe.chosen == {"lr": 5e-3, "epochs": 12}


def test_the_loss_ends_at_the_entropy_of_the_smoothed_labels(tiny_encoder: VisionTransformer) -> None:
    losses = fitted(tiny_encoder, red_or_blue(), augment=False).losses
    assert losses[-1] == pytest.approx(-0.95 * math.log(0.95) - 0.05 * math.log(0.05), abs=0.01)


def test_shuffled_labels_fall_to_chance(tiny_encoder: VisionTransformer) -> None:
    # Both sets are shuffled: a probe fitted to noise may still send all red images to one class.
    train, test = (
        dataclasses.replace(data, labels=data.labels[torch.randperm(len(data.labels), generator=torch.Generator())])
        for data in (red_or_blue(64), red_or_blue(400, seed=1))
    )
    assert accuracy(fitted(tiny_encoder, train, epochs=6), test) == pytest.approx(0.5, abs=0.1)


def test_somebody_elses_encoder_learns_too() -> None:
    torch.manual_seed(0)
    assert accuracy(fitted(Foreign(), red_or_blue(), augment=False), red_or_blue(100, seed=1)) > 0.95


@pytest.mark.parametrize("is_training", [True, False])
def test_the_encoder_is_not_changed(tiny_encoder: VisionTransformer, is_training: bool) -> None:
    encoder = tiny_encoder.train(is_training).requires_grad_(False)  # frozen, as a target encoder is
    before = copy.deepcopy(encoder.state_dict())
    probe = fitted(encoder, red_or_blue(16), epochs=2)
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    assert encoder.training == is_training and not any(value.requires_grad for value in encoder.parameters())
    learned = probe._model.encoder.state_dict()
    assert not any(torch.equal(learned[name], before[name]) for name in before)  # but all of the copy is


def test_same_seed_same_weights_and_the_global_generator_is_left_alone() -> None:
    encoder, data, weights = Foreign(), red_or_blue(16), []
    for seed in (0, 0, 1):
        torch.manual_seed(len(weights))  # must not matter
        state = torch.get_rng_state()
        probe = fitted(encoder, data, epochs=2, seed=seed)
        predicted(probe, data)
        assert torch.equal(torch.get_rng_state(), state)
        weights.append(torch.cat([value.flatten() for value in probe._model.parameters()]))
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


class OnDemand:
    """The same images from a source that only has [index]."""

    def __init__(self, images: Tensor) -> None:
        self.all = images

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, index: int) -> Sample:
        return Sample(self.all[index])


def test_images_loaded_on_demand_give_the_same_weights() -> None:
    held, encoder = red_or_blue(16), Foreign()
    on_demand = dataclasses.replace(held, source=OnDemand(held.source.images))
    assert open_images(on_demand.source, (CROP,)).memory is None
    state = torch.get_rng_state()
    probes = [fitted(encoder, data, epochs=2) for data in (held, on_demand)]
    classes = [predicted(probe, on_demand) for probe in probes]
    assert torch.equal(torch.get_rng_state(), state) and torch.equal(*classes)
    assert torch.equal(*(probe._model.encoder.linear.weight for probe in probes))


def test_every_image_is_seen_once_an_epoch_in_batches_of_one_size() -> None:
    epochs = list(Stream(epochs=2, batch_size=4, augment=True, seed=0)._rows(10))
    assert [len(rows) for rows in epochs] == [4, 3, 3] * 2
    first, second = torch.cat(epochs[:3]), torch.cat(epochs[3:])
    assert torch.equal(first.sort().values, torch.arange(10)) and not torch.equal(first, second)
    assert torch.equal(second.sort().values, torch.arange(10))


def test_broken_images_are_left_out_of_the_loss() -> None:
    images, labels = torch.randn(4, 3, *SIZE), torch.tensor([0, 1, 1, 0])
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 2))
    is_valid = torch.tensor([True, False, True, True])
    expected = F.cross_entropy(model(images[is_valid]), labels[is_valid], label_smoothing=0.1)
    views = Views(step=0, images=images, labels=labels, is_valid=is_valid)
    assert mean_loss(model, views, 0.1).item() == pytest.approx(expected.item(), rel=1e-5)
    assert mean_loss(model, dataclasses.replace(views, is_valid=torch.zeros(4, dtype=torch.bool)), 0.1) == 0


class Spy(Foreign):
    """Notes in which mode it is called; a copy notes in the same list."""

    modes: ClassVar[list[tuple[bool, bool]]] = []

    def forward(self, images: Tensor) -> Tensor:
        self.modes.append((self.training, torch.is_grad_enabled()))
        return super().forward(images)


def test_training_is_in_train_mode_and_prediction_in_eval_mode() -> None:
    data = red_or_blue(8)
    Spy.modes.clear()
    accuracy(fitted(Spy().eval(), data, epochs=2), data)
    assert Spy.modes == [(False, False), (True, True), (True, True), (False, False)]  # first a look at the width


def views(source: Source, crop: EvaluationCrop, *, augment: bool) -> list[Views]:
    """Of two steps."""
    stream = Stream(epochs=1, batch_size=4, augment=augment, seed=0)
    return list(stream.views(open_images(source, (crop.random(),)), torch.arange(8), torch.zeros(8)))


def test_views_are_augmented_as_eight_bit_images_after_the_crop() -> None:
    plain, augmented = (views(red_or_blue(8).source, CROP, augment=augment)[1].images for augment in (False, True))
    mean, std = (255 * torch.tensor(values)[:, None, None] for values in (batched.MEAN, batched.STD))
    crops = (plain * std + mean).round().clamp(0, 255).byte()
    expected = RandAugment()(crops, seeding.generator(0, "finetune augmentation", 1))
    assert torch.allclose(augmented, batched.normalise(expected.float()), atol=1e-4)
    assert not torch.allclose(augmented, plain, atol=0.1)


def test_squeezed_images_are_seen_whole() -> None:
    images = torch.zeros(8, 3, 16, 32, dtype=torch.uint8)
    images[..., -4:] = 255  # an eighth at the right edge, which crops would often miss or enlarge
    steps = views(ArraySource("edge", images), EvaluationCrop(SIZE, squeeze=True), augment=False)
    seen = torch.cat([step.images for step in steps])  # [8, 3, 16, 16]
    is_white = (seen.mean(dim=(1, 2)) > 0).float()  # [8, 16]
    assert (is_white.sum(dim=1) == 2).all()
    assert set(is_white.argmax(dim=1).tolist()) == {0, 14}  # flipped and not


@pytest.mark.parametrize("probe", ["finetune", ["finetune", "knn"]])
def test_fine_tuning_alone_decodes_images_to_find_broken_ones_and_extracts_no_features_of_encoders(
    probe: str | list[str], tiny_encoder: VisionTransformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENJEPA_CACHE", str(tmp_path / "cache"))
    folder = runner.make_labelled(tmp_path / "images")
    for split in ("train", "val"):
        (folder / split / "cats" / "003.png").write_bytes(b"broken")
    passes: list[set[str]] = []
    extract = features.extract
    monkeypatch.setattr(
        features, "extract", lambda *parts, **options: passes.append(set(parts[2])) or extract(*parts, **options)
    )
    options = {"finetune": {"epochs": 1, "warmup_epochs": 0.0}}
    for _ in range(2):
        scores = openjepa.evaluate(tiny_encoder, str(folder), probe=probe, settings=options)
        assert {(score.num_train, score.num_test) for score in scores} == {(15, 15)}
    names = {PIXELS} if probe == "finetune" else {PIXELS, RANDOM, TRAINED}
    assert passes == [names], "once: training and test images are the same here, and the second evaluation has a cache"


def test_fine_tuning_with_few_labels_opens_only_the_labelled_images_and_only_once(
    tiny_encoder: VisionTransformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = runner.make_labelled(tmp_path / "images")
    opened: list[tuple[int, str]] = []
    open_all = probing.open_images
    monkeypatch.setattr(
        probing,
        "open_images",
        lambda source, *parts, **options: (
            opened.append((len(source), options["cache"])) or open_all(source, *parts, **options)
        ),
    )
    options = {"finetune": {"epochs": 1, "warmup_epochs": 0.0}}
    scores = openjepa.evaluate(
        tiny_encoder, str(folder), probe="finetune", labels="1/class", draws=2, settings=options, uses_cache=False
    )
    ((number, cache),) = opened
    assert scores[-1].num_labels <= number <= 2 * scores[-1].num_labels < scores[-1].num_train and cache == "if it fits"


def test_files_that_do_not_fit_in_memory_are_not_written_to_disk_if_memory_alone_may_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openjepa.data.batches.from_files.memory_limit", lambda: 0)
    monkeypatch.setenv("OPENJEPA_CACHE", str(tmp_path / "cache"))
    folder = runner.make_labelled(tmp_path / "images")
    images = open_images(open_source(f"{folder}/train"), (CROP.random(),), cache="if it fits")
    assert images.store is None and not (tmp_path / "cache").exists()


def test_labels_follow_their_index_in_the_source(tiny_encoder: VisionTransformer) -> None:
    data = red_or_blue(64)
    some = data.index[torch.arange(63, 0, -2)]
    probe = fitted(tiny_encoder, Set(data.source, some, data.labels[some]), epochs=20, augment=False)
    assert accuracy(probe, Set(data.source, some, data.labels[some])) == 1.0


def test_progress_is_shown_by_epoch(tiny_encoder: VisionTransformer) -> None:
    shown = []
    data = red_or_blue(8)
    Finetune(epochs=2, warmup_epochs=0).fit(
        tiny_encoder,
        open_images(data.source, (CROP.random(),)),
        data.index,
        data.labels,
        track=lambda items, words, number: shown.append((words, number)) or items,
    )
    assert shown == [("fine-tuning", 2)]


def test_a_gradient_that_is_not_finite_is_an_error_with_advice(tiny_encoder: VisionTransformer) -> None:
    with torch.no_grad():
        tiny_encoder.norm.bias[0] = torch.inf
    with pytest.raises(OpenJepaError, match="step 0 is not finite; try a lower lr"):
        fitted(tiny_encoder, red_or_blue(8))


def test_options_are_checked_at_the_door() -> None:
    with pytest.raises(BadInput, match="warmup_epochs is 5 and epochs is 3"):
        Finetune(epochs=3)
    with pytest.raises(BadInput, match="layer_decay is 2"):
        schema.resolve(Finetune, {"layer_decay": 2}, where="")
    assert "losses" not in schema.resolve(Finetune, {}, where="")
