"""Durations, schedules, seeds, the registry, options and the config."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import torch

from openjepa.core import config, schedule, schema, seeding, settings
from openjepa.core.duration import Duration
from openjepa.core.errors import BadInput
from openjepa.core.registry import Registry
from openjepa.methods import build
from openjepa.training import setup


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("500", 500),
        (500, 500),
        ("10 epochs", 200),
        ("1 epoch", 20),
        ("0.5 epochs", 10),
        ("5%", 50),
        ("0.01%", 1),
        ("0", 0),
        ("12 steps", 12),
    ],
)
def test_durations_are_counted_in_the_unit_people_wrote(text: str | int, steps: int) -> None:
    assert Duration.parse(text).steps(steps_per_epoch=20, total=1000) == steps


@pytest.mark.parametrize("text", ["ten", "5 minutes", "-3", "", "5 %%"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not a duration"):
        Duration.parse(text)


@pytest.mark.parametrize("text", ["500", "10 epochs", "5%", "0.5 epochs", "1000000", "1234567", "0.00001%"])
def test_a_duration_survives_being_written_down(text: str) -> None:
    assert Duration.parse(str(Duration.parse(text))) == Duration.parse(text)


def test_warmup_and_cosine_pass_through_known_points() -> None:
    options = {"warmup": 0.1, "start": 2e-4, "peak": 1e-3, "final": 1e-6}
    assert schedule.warmup_cosine(0.0, **options) == pytest.approx(2e-4)
    assert schedule.warmup_cosine(0.05, **options) == pytest.approx(6e-4)
    assert schedule.warmup_cosine(0.1, **options) == pytest.approx(1e-3)
    assert schedule.warmup_cosine(0.55, **options) == pytest.approx((1e-3 + 1e-6) / 2)
    assert schedule.warmup_cosine(1.0, **options) == pytest.approx(1e-6)


def test_cosine_equals_torchs_annealing() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.4)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50, eta_min=0.04)
    for step in range(50):
        assert schedule.cosine(step / 50, 0.4, 0.04) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-6)
        optimizer.step()
        theirs.step()


def test_every_purpose_and_step_has_numbers_of_its_own() -> None:
    numbers = {
        seeding.number(seed, purpose, index) for seed in range(5) for purpose in ("a", "b") for index in range(50)
    }
    assert len(numbers) == 500
    first, again = (torch.rand(3, generator=seeding.generator(1, "masks", 7)) for _ in range(2))
    assert torch.equal(first, again)


def test_a_registry_gives_a_hint() -> None:
    registry: Registry[str] = Registry("fruit", "openjepa.core")
    registry.register("apple")("red")
    assert registry["apple"] == "red" and "pear" not in registry
    with pytest.raises(BadInput, match='unknown fruit "aple"; did you mean "apple"'):
        registry["aple"]
    with pytest.raises(ValueError, match="registered twice"):
        registry.register("apple")("green")


@dataclass(frozen=True, kw_only=True)
class Part:
    count: int = 2
    kind: Literal["a", "b"] = "a"
    limits: tuple[float, float] = (0.0, 1.0)


def test_a_constructor_is_a_schema() -> None:
    assert schema.resolve(Part, {"limits": [0.1, "1e-1"]}, where="part") == {
        "count": 2,
        "kind": "a",
        "limits": (0.1, 0.1),
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cuont": 3}, 'unknown setting "part.cuont"; did you mean "count"'),
        ({"count": "three"}, "part.count is 'three'"),
        ({"kind": "c"}, "part.kind is 'c'"),
        ({"limits": [1.0]}, "part.limits"),
    ],
)
def test_wrong_options_are_named_with_their_value(options: dict, message: str) -> None:
    with pytest.raises(BadInput) as error:
        schema.resolve(Part, options, where="part")
    assert message in str(error.value)


def test_a_number_that_yaml_reads_as_text_is_still_a_number(tmp_path: Path) -> None:
    """PyYAML reads 1e-6 as a string."""
    file = tmp_path / "c.yaml"
    file.write_text("optim: {lr: 1e-6}\n")
    assert config.load(settings.read(file)).optim.lr == 1e-6


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optim.lrr=1", 'unknown setting "optim.lrr"; did you mean "lr"'),
        ("optm.lr=1", 'unknown setting "optm"; did you mean "optim"'),
        ("optim.lr=fast", "optim.lr is 'fast'"),
        ("optim.lr=.inf", "optim.lr is inf"),
        ("optim.lr", "not of the form key=value"),
        ("train.batch_size=0", "train.batch_size is 0"),
        ("data=3", "data is 3"),
        ("optim.warmup=5 days", "is not a duration"),
        ("optim.lr=[", "not readable"),
    ],
)
def test_a_wrong_override_gets_one_clear_sentence(override: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        config.load({}, [override])
    assert message in str(error.value) and "\n" not in str(error.value)


def test_two_lengths_are_refused_and_an_override_replaces_the_length_of_the_file() -> None:
    with pytest.raises(BadInput, match="epochs and minutes are both set"):
        config.load({"train": {"epochs": 3, "minutes": 1}})
    assert config.load({"train": {"epochs": 3}}, ["train.minutes=2"]).train.epochs is None


@pytest.mark.parametrize(
    ("content", "message"),
    [("- a\n", "a config is a mapping"), ("a: [", "not a readable YAML"), (None, "no config file")],
)
def test_a_wrong_file_gets_one_clear_sentence(content: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(BadInput, match=message):
        settings.read(file)


def test_a_resolved_config_is_complete_and_survives_being_read_again() -> None:
    resolved = setup.resolve(
        config.load({}, ["model.name=vit-micro/8", "data.image_size=64", "method.masks.num_targets=3"])
    )
    assert resolved.method["predictor"] == {"width": 64, "depth": 3, "num_heads": 4, "attention": "joint"}
    assert resolved.method["masks"]["num_targets"] == 3 and resolved.method["masks"]["target_scale"] == [0.15, 0.2]
    assert resolved.monitors["loss"] == {"every": "10"}
    import yaml

    again = setup.resolve(config.load(yaml.safe_load(config.dump(resolved))))
    assert config.dump(again) == config.dump(resolved)


def test_monitors_are_added_to_the_defaults_and_can_be_switched_off() -> None:
    loaded = config.load({}, ["monitors.collapse=off", "monitors.loss.every=5"])
    others = {"throughput": {}, "prediction": {}, "gradients": {}}
    assert loaded.monitors == {"loss": {"every": 5}, "collapse": False, **others}
    assert len(setup.build_monitors(setup.resolve(loaded), steps_per_epoch=10, total=100)) == 4


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("method.masks.name=multiblok", 'did you mean "multiblock"'),
        ("method.masks.target_scale=[0.5,0.1]", "write [smaller, larger]"),
        ("method.predictor.widht=3", 'did you mean "width"'),
        ("method.name=simclrr", "unknown method"),
        ("model.name=vit-tiny/15", "not a multiple of patch size 15"),
        ("monitors.lost.every=3", 'unknown monitor "lost"'),
    ],
)
def test_wrong_parts_are_refused_before_anything_is_written(override: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        build.method(setup.resolve(config.load({}, [override])))
    assert message in str(error.value)


def test_differences_are_listed_by_dotted_path() -> None:
    rows = settings.difference({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1, "c": 5}, "e": 4})
    assert rows == [("a.c", 2, 5), ("d", 3, None), ("e", None, 4)]


def test_the_published_rates_are_reached() -> None:
    """FACTS 1.10 at ImageNet scale: 300 epochs of 625 steps, 40 epochs of warm-up."""
    from openjepa.training.optim import Rates

    total, warmup = 300 * 625, 40 * 625
    rates = Rates(lr=1e-3, start_lr=2e-4, final_lr=1e-6, warmup=warmup / total, weight_decay=(0.04, 0.4))
    k = 10_000  # of the published schedulers: the progress after our step k - 1
    assert rates.at(k / total)[0] == pytest.approx(2e-4 + k / warmup * 8e-4)
    k = 100_000
    cosine = 0.5 * (1 + math.cos(math.pi * (k - warmup) / (total - warmup)))
    assert rates.at(k / total)[0] == pytest.approx(1e-6 + (1e-3 - 1e-6) * cosine)
    assert rates.at(k / total)[1] == pytest.approx(0.4 + (0.04 - 0.4) * 0.5 * (1 + math.cos(math.pi * k / total)))
    assert rates.at(1.0) == pytest.approx((1e-6, 0.4))
