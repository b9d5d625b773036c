"""The linear probe's stacked heads and optimisers against torch, one head at a time; its choices against hand-made features."""

import pytest
import torch
from torch import Tensor, nn

from openjepa.core import schema
from openjepa.core.contracts import probes
from openjepa.core.errors import BadInput, OpenJepaError
from openjepa.core.types import Features
from openjepa.evaluation.probes.linear import head_grid
from openjepa.evaluation.probes.linear.head_grid import Setting, Stack, inputs
from openjepa.evaluation.probes.linear.heads import Heads
from openjepa.evaluation.probes.linear.linear import Linear
from openjepa.evaluation.probes.linear.stacked_optim import RULES, StackedOptimizer

pytestmark = pytest.mark.slow

BATCH, CLASSES, WIDTH = 16, 4, 6
LRS, DECAYS = [0.5, 0.1, 0.02], [0.0, 0.1, 0.01]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def batch(seed: int = 0) -> tuple[Tensor, Tensor]:
    labels = torch.randint(CLASSES, (BATCH,), generator=torch.Generator().manual_seed(seed))
    return 3 + 2 * random(BATCH, WIDTH, seed=seed), labels


def varied_heads(has_norm: bool) -> Heads:
    """Three heads, all different."""
    heads = Heads(random(CLASSES, WIDTH), 3, has_norm=has_norm)
    for seed, value in enumerate(heads.parameters.values()):
        value += 0.3 * random(*value.shape, seed=seed)
    return heads


def torch_head(heads: Heads, index: int) -> nn.Sequential:
    """The same head as torch would have it."""
    model = nn.Sequential(nn.BatchNorm1d(WIDTH) if heads.has_norm else nn.Identity(), nn.Linear(WIDTH, CLASSES))
    model[1].load_state_dict({name: heads.parameters[name][index] for name in ("weight", "bias")})
    if heads.has_norm:
        model[0].weight.data = heads.parameters["scale"][index].clone()
        model[0].bias.data = heads.parameters["shift"][index].clone()
    return model


def torch_parameters(model: nn.Sequential) -> dict[str, nn.Parameter]:
    """By our names."""
    norm = {} if isinstance(model[0], nn.Identity) else {"scale": model[0].weight, "shift": model[0].bias}
    return {"weight": model[1].weight, "bias": model[1].bias, **norm}


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("has_norm", [False, True])
def test_losses_and_gradients_equal_torch_for_every_head(has_norm: bool) -> None:
    heads, (x, labels) = varied_heads(has_norm), batch()
    models = [torch_head(heads, index) for index in range(3)]
    losses, gradients = heads.learn(x, labels)
    for index, model in enumerate(models):
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        assert_close(losses[index], loss.detach())
        for name, parameter in torch_parameters(model).items():
            assert_close(gradients[name][index], parameter.grad)


@pytest.mark.parametrize("has_norm", [False, True])
def test_running_statistics_and_evaluation_logits_equal_torch(has_norm: bool) -> None:
    heads = varied_heads(has_norm)
    models = [torch_head(heads, index) for index in range(3)]
    for seed in range(5):
        heads.learn(*batch(seed))
        for model in models:
            model(batch(seed)[0])
    if has_norm:
        assert_close(heads.running_mean, models[0][0].running_mean)
        assert_close(heads.running_variance, models[0][0].running_var)
    logits = heads.logits(batch(9)[0])  # [B, H, C]
    for index, model in enumerate(models):
        assert_close(logits[:, index], model.eval()(batch(9)[0]).detach())


@pytest.mark.parametrize("has_norm", [False, True])
def test_stacked_sgd_equals_torch_for_every_head(has_norm: bool) -> None:
    heads = varied_heads(has_norm)
    models = [torch_head(heads, index) for index in range(3)]
    ours = StackedOptimizer(RULES["sgd"], heads.parameters, lrs=LRS, weight_decays=DECAYS)
    theirs = []
    for model, lr, decay in zip(models, LRS, DECAYS, strict=True):
        groups = [{"params": model[1].parameters(), "weight_decay": decay}]
        groups += [{"params": model[0].parameters(), "weight_decay": 0.0}] if has_norm else []
        theirs.append(torch.optim.SGD(groups, lr=lr, momentum=0.9, nesterov=True))
    for seed in range(6):
        x, labels = batch(seed)
        ours.step(heads.learn(x, labels)[1], factor=1.0)
        for model, optimizer in zip(models, theirs, strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), labels).backward()
            optimizer.step()
    for index, model in enumerate(models):
        for name, parameter in torch_parameters(model).items():
            assert_close(heads.parameters[name][index], parameter.detach())


def slow_lars(
    value: Tensor, gradient: Tensor, velocity: Tensor, *, name: str, lr: float, decay: float
) -> tuple[Tensor, Tensor]:
    """One tensor of one head, from the formula of You et al. 2017. -> new value, new velocity"""
    decay = 0.0 if name in ("scale", "shift") else decay
    local = 1.0
    if name == "weight" and value.norm() > 0 and gradient.norm() > 0:
        local = 0.001 * value.norm().item() / (gradient.norm().item() + decay * value.norm().item())
    velocity = 0.9 * velocity + lr * local * (gradient + decay * value)
    return value - velocity, velocity


def test_stacked_lars_equals_a_slow_loop_from_the_formula() -> None:
    heads = varied_heads(has_norm=True)
    heads.parameters["weight"][2] = 0.0  # one head has no size to compare with
    ours = StackedOptimizer(RULES["lars"], heads.parameters, lrs=LRS, weight_decays=DECAYS)
    slots = [(name, head) for name in heads.parameters for head in range(3)]
    slow = {(name, head): heads.parameters[name][head].clone() for name, head in slots}
    velocities = {slot: torch.zeros_like(value) for slot, value in slow.items()}
    for seed in range(4):
        _, gradients = heads.learn(*batch(seed))
        for slot in slots:
            name, head = slot
            state = (slow[slot], gradients[name][head], velocities[slot])
            slow[slot], velocities[slot] = slow_lars(*state, name=name, lr=0.5 * LRS[head], decay=DECAYS[head])
        ours.step(gradients, factor=0.5)
    for name, head in slots:
        torch.testing.assert_close(heads.parameters[name][head], slow[name, head], rtol=1e-5, atol=1e-7)


def test_lars_does_not_move_a_weight_without_gradient_by_a_trust_ratio() -> None:
    parameters = {"weight": torch.ones(1, 2, 2)}
    optimizer = StackedOptimizer(RULES["lars"], parameters, lrs=[0.1], weight_decays=[0.5])
    optimizer.step({"weight": torch.zeros(1, 2, 2)}, factor=1.0)
    assert_close(parameters["weight"], torch.full((1, 2, 2), 1 - 0.1 * 0.5))


def test_rates_fall_to_a_tenth_at_milestones() -> None:
    probe = Linear()
    epochs = (0, 7.99, 8, 16, 24, 27.9)
    assert [probe.rate(epoch / probe.epochs) for epoch in epochs] == pytest.approx([1, 1, 0.1, 0.01, 0.001, 0.001])


def test_without_milestones_rates_follow_a_cosine() -> None:
    probe = Linear(milestones=(), epochs=50)
    # Half-way: (1 + 0.01) / 2. At a third: 0.01 + 0.99 · (1 + cos 60°) / 2 = 0.01 + 0.99 · 0.75.
    assert [probe.rate(epoch / 50) for epoch in (0, 25, 50 / 3, 50)] == pytest.approx([1, 0.505, 0.7525, 0.01])


def told(labels: Tensor, classes: int = 3, width: int = 6, seed: int = 0) -> Tensor:
    """[S] -> [S, width]: features that tell the class."""
    return 2 * random(classes, width, seed=99)[labels] + 0.1 * random(len(labels), width, seed=seed)


LABELS = torch.arange(120) % 3


@pytest.mark.parametrize("optimizer", ["sgd", "lars"])
@pytest.mark.parametrize("milestones", [(), (8, 16, 24)])
def test_features_that_tell_the_class_give_a_perfect_score(optimizer: str, milestones: tuple[int, ...]) -> None:
    probe = Linear(optimizer=optimizer, milestones=milestones, batch_size=16, learning_rates=(1.0, 10.0))
    assert probe.fit(Features(told(LABELS), LABELS)).score(Features(told(LABELS, seed=1), LABELS)) == {"accuracy": 1.0}


@pytest.mark.parametrize("where", ["last", "last4"])
def test_held_out_training_data_chooses_the_features(where: str) -> None:
    vectors, layers = random(120, 6, seed=1), random(120, 24, seed=2)
    if where == "last":
        vectors = told(LABELS)
    else:
        layers[:, :6] = told(LABELS)
    probe = Linear(batch_size=32, epochs=8).fit(Features(vectors, LABELS, layers))
    assert probe.chosen["features"] == where
    assert probe.chosen["validation_accuracy"] == 1.0
    assert set(probe.chosen) == {"features", "norm", "lr", "weight_decay", "epochs", "steps", "validation_accuracy"}


def test_a_head_that_knows_the_training_set_by_heart_is_not_chosen() -> None:
    hints = told(LABELS) + 3 * random(120, 6, seed=7)
    train = Features(hints, LABELS, random(120, 400, seed=8))  # enough noise to tell 120 samples apart
    probe = Linear(batch_size=16, learning_rates=(0.5,), weight_decays=(0.0,))
    stacks = probe._train(probe.grid(train), train, torch.arange(120))
    by_heart = {stack.features: stack.validate(train, torch.arange(120))[0].accuracy for stack in stacks}
    assert by_heart["last4"] == 1.0 > by_heart["last"]
    assert probe.fit(train).chosen["features"] == "last"


def test_of_equally_right_heads_the_one_with_the_smaller_loss_is_chosen() -> None:
    # All are right about everything; the larger rate is surer.
    probe = Linear(batch_size=16, learning_rates=(0.5, 1.0, 0.7), weight_decays=(0.0,)).fit(
        Features(told(LABELS), LABELS)
    )
    assert probe.chosen["validation_accuracy"] == 1.0
    assert probe.chosen["lr"] == 1.0


def test_shuffled_labels_fall_to_chance() -> None:
    labels = torch.arange(600) % 3
    shuffled = labels[torch.randperm(600, generator=torch.Generator().manual_seed(0))]
    probe = Linear(epochs=4, batch_size=64).fit(Features(random(600, 6), shuffled))
    assert probe.score(Features(random(600, 6, seed=1), labels))["accuracy"] == pytest.approx(1 / 3, abs=0.06)


def test_grid_of_one_is_trained_without_choosing() -> None:
    probe = Linear(batch_size=1, learning_rates=(0.1,), weight_decays=(0.0,), epochs=1)
    probe.fit(Features(told(LABELS), LABELS))
    expected = {"features": "last", "norm": "none", "lr": 0.1, "weight_decay": 0.0}
    assert probe.chosen == expected | {"epochs": 9, "steps": 1080}  # 120 samples, at least 1,000 steps


def test_grid_has_every_combination_and_starts_with_the_fallback() -> None:
    grid = Linear().grid(Features(random(8, 6), torch.arange(8), random(8, 24)))
    assert len(set(grid)) == 16
    assert grid[0] == Setting("last", "batch", 0.01, 5e-4)


def test_one_label_a_class_takes_the_first_head_of_the_grid() -> None:
    labels = torch.arange(3)
    train = Features(told(labels), labels, told(labels, width=24))
    probe = Linear(milestones=(), learning_rates=(1.0, 0.1)).fit(train)
    expected = {"features": "last", "norm": "batch", "lr": 1.0, "weight_decay": 5e-4}
    assert probe.chosen == expected | {"epochs": 1000, "steps": 1000}
    assert probe.score(train)["accuracy"] == 1.0


def test_absent_classes_are_no_trouble() -> None:
    labels = 2 + 3 * LABELS  # 2, 5 and 8
    probe = Linear(batch_size=16).fit(Features(told(LABELS), labels))
    assert probe.predict(Features(told(LABELS, seed=1), torch.zeros(120, dtype=torch.int64))).unique().tolist() == [
        2,
        5,
        8,
    ]


def test_predictions_do_not_depend_on_test_labels() -> None:
    probe = Linear(epochs=2).fit(Features(told(LABELS), LABELS))
    noise = random(50, 6)
    predicted = [probe.predict(Features(noise, torch.full((50,), label))) for label in (0, 2)]
    assert torch.equal(*predicted)


def test_same_seed_gives_the_same_head_and_leaves_the_global_generator_alone() -> None:
    train = Features(told(LABELS) + random(120, 6, seed=5), LABELS)
    state = torch.get_rng_state()
    probes_fitted = [Linear(epochs=2, batch_size=16, seed=seed).fit(train) for seed in (0, 0, 1)]
    assert torch.equal(torch.get_rng_state(), state)
    weights = [probe._winner.heads.parameters["weight"] for probe in probes_fitted]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert probes_fitted[0].chosen == probes_fitted[1].chosen


def test_a_head_learns_the_same_alone_as_in_its_stack() -> None:
    train, rows = Features(told(LABELS), LABELS, random(120, 24)), torch.arange(120)
    probe = Linear(epochs=3, batch_size=50)
    grid = probe.grid(train)
    stacks = probe._train(grid, train, rows)
    for stack in stacks:
        (alone,) = probe._train([stack.settings[2]], train, rows)
        for name, value in stack.heads.parameters.items():
            assert_close(alone.heads.parameters[name][0], value[2])


def test_a_small_set_gets_more_epochs_and_the_schedule_stretches_with_them() -> None:
    train = Features(torch.arange(10.0).unsqueeze(1), torch.arange(10))
    probe = Linear(epochs=4, milestones=(2,), batch_size=256, min_steps=40)
    factors = [factor for _, _, factor in probe._batches(train, torch.arange(10), ["last"])]  # one batch an epoch
    assert factors == pytest.approx(
        [1.0] * 20 + [0.1] * 20
    )  # at the rate of a batch of 256, though there are ten samples


def test_views_are_cycled_through_and_end_with_the_last_block() -> None:
    views = tuple(torch.full((10, 8), float(number)) for number in (1, 2, 3))
    for view in views:
        view[:, -2:] += 0.5  # the last block
    train = Features(torch.zeros(10, 2), torch.arange(10) % 2, torch.zeros(10, 8), views)
    seen = [
        x for x, _, _ in Linear(epochs=5, min_steps=0)._batches(train, torch.arange(10), ["last", "last4"])
    ]  # one an epoch
    assert [x["last"].unique().tolist() for x in seen] == [[1.5], [2.5], [3.5], [1.5], [2.5]]
    assert [x["last4"].unique().tolist() for x in seen] == [[1, 1.5], [2, 2.5], [3, 3.5], [1, 1.5], [2, 2.5]]
    assert all((x == 0).all() for x in inputs(train).values())  # evaluation sees the plain images


def test_views_without_layers_are_like_vectors() -> None:
    train = Features(torch.zeros(10, 2), torch.arange(10) % 2, views=(torch.ones(10, 2),))
    assert list(inputs(train, epoch=1)) == ["last"]
    assert (inputs(train, epoch=1)["last"] == 1).all()


def test_every_epoch_shows_every_sample_once_in_a_new_order_at_the_scheduled_rate() -> None:
    train = Features(torch.arange(10.0).unsqueeze(1), torch.arange(10))
    batches = list(
        Linear(epochs=2, batch_size=4, milestones=(1,), min_steps=0)._batches(train, torch.arange(10), ["last"])
    )
    assert [len(labels) for _, labels, _ in batches] == [4, 4, 2, 4, 4, 2]
    assert all(torch.equal(x["last"].squeeze(1).long(), labels) for x, labels, _ in batches)
    first, second = (torch.cat([labels for _, labels, _ in part]) for part in (batches[:3], batches[3:]))
    assert first.sort()[0].tolist() == second.sort()[0].tolist() == list(range(10))
    assert not torch.equal(first, second)
    assert [factor for _, _, factor in batches] == pytest.approx([4 / 256] * 3 + [0.4 / 256] * 3)


def test_views_train_and_the_plain_images_are_evaluated() -> None:
    views = tuple(told(LABELS, seed=seed) for seed in (1, 2))
    probe = Linear(batch_size=16).fit(Features(told(LABELS), LABELS, views=views))
    assert probe.score(Features(told(LABELS, seed=3), LABELS)) == {"accuracy": 1.0}


def test_a_last_batch_of_one_is_left_out_by_batch_norm_only() -> None:
    train = Features(told(LABELS), LABELS)
    for stack in Linear(epochs=1, batch_size=17)._train(Linear().grid(train), train, torch.arange(18)):
        before = stack.total_loss.clone()
        stack.step(train.vectors[:1], LABELS[:1], factor=1.0)
        assert torch.equal(stack.total_loss, before) == stack.heads.has_norm


def test_a_loss_that_was_not_finite_once_is_not_forgiven() -> None:
    stack = Stack([Setting("last", "none", 0.1, 0.0)] * 2, random(3, 6), optimizer="sgd")
    stack.total_loss[1] += float("inf")  # of one step; the weights are fine
    scores = stack.validate(Features(told(LABELS), LABELS), torch.arange(120))
    assert [score.is_finite for score in scores] == [True, False]


def test_chunks_change_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    train = Features(told(LABELS) + random(120, 6, seed=5), LABELS)
    probe = Linear(epochs=2).fit(train)
    whole = (probe.predict(train), probe._winner.validate(train, torch.arange(120)))
    monkeypatch.setattr(head_grid, "CHUNK", 7)
    assert torch.equal(probe.predict(train), whole[0])
    (score,), (expected,) = probe._winner.validate(train, torch.arange(120)), whole[1]
    assert (score.accuracy, score.loss) == pytest.approx((expected.accuracy, expected.loss))


def test_an_exploding_rate_loses_to_a_sane_one() -> None:
    probe = Linear(batch_size=16, learning_rates=(1e30, 0.1), weight_decays=(5e-4,)).fit(Features(told(LABELS), LABELS))
    assert probe.chosen["lr"] == 0.1
    assert probe.score(Features(told(LABELS, seed=1), LABELS)) == {"accuracy": 1.0}


@pytest.mark.parametrize("labels", [LABELS, torch.arange(3)])
def test_an_exploding_rate_alone_is_one_sentence(labels: Tensor) -> None:
    probe = Linear(learning_rates=(1e30,), weight_decays=(5e-4,))
    with pytest.raises(OpenJepaError, match=r"loss did not stay finite \(learning rates 1e\+30\); use smaller"):
        probe.fit(Features(told(labels), labels))


def test_broken_features_are_one_sentence() -> None:
    vectors = told(LABELS)
    vectors[7, 2] = float("nan")
    with pytest.raises(OpenJepaError, match="check that the features are finite"):
        Linear().fit(Features(vectors, LABELS))


BAD_OPTIONS = [
    {"optimizer": "adam"},
    {"epochs": 0},
    {"batch_size": 0},
    {"milestones": [0]},
    {"final_ratio": 2},
    {"learning_rates": []},
    {"learning_rates": [0.0]},
    {"weight_decays": []},
    {"weight_decays": [-1.0]},
    {"learning_rate": 0.1},
]


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=str)
def test_bad_options_are_refused_by_name(options: dict[str, object]) -> None:
    with pytest.raises(BadInput, match=next(iter(options))):
        schema.build(probes, {"name": "linear", **options})


def test_options_may_be_lists_as_yaml_has_them() -> None:
    probe = schema.build(probes, {"name": "linear", "milestones": [], "learning_rates": [0.05]})
    assert probe == Linear(milestones=(), learning_rates=(0.05,))
