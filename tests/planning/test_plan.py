"""Plans against counts by hand, torch's own counter, a real step's allocations, and the published sizes."""

import dataclasses

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from openjepa.benchmarks import step as bench_step
from openjepa.core import config as configs
from openjepa.core.errors import BadInput
from openjepa.core.types import Batch, Step
from openjepa.methods import build
from openjepa.planning import cost, published, summary
from openjepa.planning import gpus as plan_gpus
from openjepa.planning import memory as plan_memory
from openjepa.planning.plan import plan
from openjepa.training import recipe, setup

# Blocks of one size, 4×4 of 8×8 patches, so that every step does the same work.
SMALL = [
    "data.image_size=64",
    "model.name=vit-nano/8",
    "method.masks.target_scale=[0.25,0.25]",
    "method.masks.target_aspect=[1,1]",
    "train.batch_size=8",
]


def small(*words: str) -> configs.Config:
    return setup.resolve(configs.load({}, [*SMALL, *words]))


def counted(*words: str, num_images: int = 8, precision: str = "float32") -> cost.Work:
    return cost.count(small(*words), num_images=num_images, precision=precision)


def blocks_by_hand(tokens: int, *, dim: int, depth: int) -> int:
    """Two FLOP for each multiply-add: query, key, value and output 4·D², MLP 8·D², scores and their use 2·N·D a token."""
    return depth * 2 * tokens * (12 * dim**2 + 2 * tokens * dim)


def test_flops_agree_with_a_count_by_hand() -> None:
    work = counted()  # nano: 64 wide, 3 blocks; its predictor: 32 wide, 2 blocks; 64 patches of 192 values
    context, block = 16, 16
    embed = 2 * 192 * 64  # a patch
    assert work.forward["target_encoder"] == 64 * embed + blocks_by_hand(64, dim=64, depth=3)
    assert work.forward["context_encoder"] == context * embed + blocks_by_hand(context, dim=64, depth=3)
    in_and_out = 2 * 64 * 32 * (context + 4 * block)
    assert work.forward["predictor"] == in_and_out + 4 * blocks_by_hand(context + block, dim=32, depth=2)
    trained = work.forward["context_encoder"] + work.forward["predictor"]
    assert work.backward == 2 * trained - context * embed  # pixels need no gradient


def test_the_target_encoder_keeps_its_work_when_its_blocks_are_averaged() -> None:
    """Then its blocks are called one by one, and the final norm, which has no matrix product, is not."""
    averaged, plain = counted("method.target_blocks=2"), counted()
    assert averaged.forward == plain.forward


def test_flops_agree_with_a_real_step_whose_attention_is_written_out_as_matrix_products() -> None:
    config = small()
    bench = bench_step.StepBench(config, torch.device("cpu"))
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        bench.gradients(0)
    real = counter.get_total_flops() / config.train.batch_size
    assert counted().flops == real and counted(precision="bfloat16").flops == real
    assert bench.flops(0) / config.train.batch_size == real, "the benchmark counts fused attention alike"


@pytest.mark.slow
@pytest.mark.parametrize("word", ["model.drop_path=0", "model.checkpoint_activations=true"])
def test_memory_agrees_with_the_allocations_of_a_real_step(word: str) -> None:
    config = small(word)
    method, step = build.method(config).train(), Step(index=0, total=10, seed=0, batch_size=8, rows=slice(0, 8))
    method(Batch(torch.randn(8, 3, 64, 64), torch.arange(8)), step).loss.backward()  # now gradients and tables exist
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        batch = Batch(torch.randn(8, 3, 64, 64), torch.arange(8))  # by name, or it would be gone before the peak
        output = method(batch, step)
        output.loss.backward()
    # torch's smooth L1 returns a number in a storage of the size of the targets; fake tensors do not know that
    assert counted(word).activations * 8 + 4 * 8 * 4 * 16 * 64 == pytest.approx(_peak(profiler), rel=0.005)


def _peak(profiler: profile) -> int:
    """The most bytes that were allocated at one moment."""
    changes = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = torch.tensor([event.nbytes() for event in sorted(changes, key=lambda event: event.start_ns())]).cumsum(0)
    return int(live.max())


def test_checkpointing_keeps_less_and_computes_the_encoder_once_more() -> None:
    settings, checkpointed = counted(), counted("model.checkpoint_activations=true")
    assert checkpointed.activations < settings.activations
    last_layers = 3 * 2 * 16 * 64 * 256  # the backward pass does not need their output, so torch stops before them
    assert checkpointed.backward - settings.backward == blocks_by_hand(16, dim=64, depth=3) - last_layers


@pytest.mark.slow
def test_memory_grows_with_the_images_and_copies_of_weights_do_not() -> None:
    few, many = counted(num_images=2, precision="bfloat16"), counted(num_images=8, precision="bfloat16")
    assert few.activations == pytest.approx(many.activations, rel=0.02)
    assert few.weight_copies == many.weight_copies == pytest.approx(2 * few.num_trained, rel=0.1)
    assert many.activations < 0.75 * counted().activations and counted().weight_copies == 0


@pytest.mark.slow
def test_padded_contexts_and_other_masks_can_be_planned() -> None:
    padded = counted("method.masks.equalize=pad")
    assert padded.flops > counted().flops and padded.mask_sizes["masks/context_patches"] > 16
    words = ["method.masks={name: random}", "model.drop_path=0.1", "method.predictor.attention=shared"]
    assert counted(*words).forward["target_encoder"] == counted().forward["target_encoder"]


def test_ddp_keeps_everything_everywhere_and_fsdp_shares_it() -> None:
    work = dataclasses.replace(counted(), parameters={"a": 1000, "b": 200}, num_trained=200, largest_block=50)
    work = dataclasses.replace(work, activations=7.0, weight_copies=400)
    everywhere = plan_memory.ddp(work, num_images=3, gpus=4)
    assert everywhere.total == 4 * 1200 + 4 * 200 + 8 * 200 + 4 * 200 + 400 + 3 * 7
    shared = plan_memory.fsdp(work, num_images=3, gpus=4)
    assert shared.total == (4 * 1200 + 4 * 200 + 8 * 200) / 4 + 3 * 4 * 50 + 3 * 7
    alone = plan_memory.ddp(work, num_images=3, gpus=1)
    assert alone.total == everywhere.total - 4 * 200, "one process exchanges nothing"


def test_hours_and_cost_are_work_over_speed() -> None:
    words = {"gpu": "l4", "utilisation": 0.5, "price": 2.0, "num_images": 1003}
    one, four = (plan(small("train.epochs=3"), gpus=gpus, **words) for gpus in (1, 4))
    seconds = 3 * 1000 * one.work.flops / (0.5 * 121e12)  # 1003 images are 125 batches of 8
    assert one.hours == pytest.approx(seconds / 3600) and one.cost == pytest.approx(2 * one.hours)
    assert four.hours == pytest.approx(one.hours / 4) and four.cost == pytest.approx(one.cost)
    assert (one.images_at_a_time, four.images_at_a_time) == (8, 2)


def test_a_run_of_minutes_takes_these_minutes() -> None:
    made = plan(small("train.minutes=30"))
    assert made.hours == pytest.approx(0.5, rel=1e-3)


@pytest.mark.slow
def test_advice_of_a_plan_that_does_not_fit_makes_it_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, of_four = plan(small()).ddp, plan(small(), gpus=4).ddp
    memory = (alone.fixed + 0.3 * alone.activations) / plan_memory.GIB / plan_memory.USABLE
    monkeypatch.setitem(plan_gpus.GPUS, "card", plan_gpus.Gpu("card", 1, 1, memory, 1))
    advice = summary.verdict(plan(small(), gpu="card"))
    assert "train.accumulate=4, or" in advice and "--gpus" not in advice, "the buckets of DDP would not fit"
    assert summary.verdict(plan(small("train.accumulate=4"), gpu="card")).startswith("fits with DDP")
    memory += (of_four.fixed - alone.fixed) / plan_memory.GIB / plan_memory.USABLE
    monkeypatch.setitem(plan_gpus.GPUS, "card", plan_gpus.Gpu("card", 1, 1, memory, 1))
    assert "--gpus 4" in summary.verdict(plan(small(), gpu="card"))
    assert summary.verdict(plan(small(), gpu="card", gpus=4)).startswith("fits with DDP")
    monkeypatch.setitem(plan_gpus.GPUS, "card", plan_gpus.Gpu("card", 1, 1, memory / 100, 1))
    assert "a smaller model" in summary.verdict(plan(small(), gpu="card"))


def test_gpus_without_bfloat16_units_are_planned_in_float32() -> None:
    assert plan(small(), gpu="t4").assumed.precision == "float32"
    assert plan(small(), gpu="a100-40").assumed.precision == "bfloat16"
    with pytest.raises(BadInput, match="v100-32 has no bfloat16 units"):
        plan(small("train.precision=bfloat16"), gpu="v100-32")


@pytest.mark.parametrize(
    ("source", "number", "expected"),
    [
        ("imagenet:/no/such", None, 1_281_167),
        ("/no/such/imagenet22k", None, 14_197_122),
        ("/no/such", 77, 77),
        ("scenes:64", None, 64),
    ],
)
def test_the_number_of_images_is_set_counted_or_published(source: str, number: int | None, expected: int) -> None:
    config = small(f"data.source={source}")
    assert published.num_images(config, number)[0] == expected


# Encoder and predictor: FACTS 1.3 and 1.4. At 448 pixels the patches are 16 wide instead of 14: 180 · 1280 more weights.
PUBLISHED = {
    "imagenet/vit_b16": (85_646_592, 11_238_912, 600),
    "imagenet/vit_l16": (303_098_880, 22_082_560, 600),
    "imagenet/vit_h14": (630_434_560, 22_279_424, 300),
    "imagenet/vit_h16_448": (630_434_560 + 180 * 1280, 22_279_424, 300),
    "imagenet/vit_g16_22k": (1_011_092_608, 29_475_712, 44),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_config_has_the_published_sizes(name: str) -> None:
    config = setup.resolve(configs.load(recipe.read(name)))
    sizes = {name: cost._size(network) for name, network in build.outline(config).named_children()}
    encoder, predictor, epochs = PUBLISHED[name]
    assert sizes == {"context_encoder": encoder, "target_encoder": encoder, "predictor": predictor}
    assert (config.train.batch_size, config.train.epochs) == (2048, epochs)


@pytest.mark.slow
def test_the_published_claim_implies_a_fifth_of_the_peak() -> None:
    config = configs.load(recipe.read("imagenet/vit_h14"))
    made = plan(config, gpus=published.NUM_GPUS, utilisation=published.implied_utilisation())
    assert made.work.flops == pytest.approx(published.FLOPS, rel=0.001)
    assert made.hours == pytest.approx(published.HOURS, rel=0.001)
    assert published.implied_utilisation() == pytest.approx(0.188, abs=0.001)
    assert made.ddp.fits(80), "the published run had 128 images on each A100"


def test_the_global_generator_is_left_as_it_was() -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    counted()
    assert torch.rand(1) == expected
