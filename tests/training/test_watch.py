"""The watch: its numbers against slow and hand-made versions, its verdicts on made-up histories."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from openjepa.cli import runs
from openjepa.core import config as configs
from openjepa.core.contracts import View, monitors
from openjepa.core.errors import BadInput
from openjepa.core.types import Batch, LossOutput, Step
from openjepa.methods.ijepa import IJEPA
from openjepa.report import overview, page
from openjepa.report import record as report_record
from openjepa.runs.provenance import Provenance
from openjepa.training import resume, verdict
from openjepa.training.history import History
from openjepa.training.monitors import collapse, prediction
from openjepa.training.watch import Watch, check

STEP = Step(index=0, total=10, seed=0, batch_size=4, rows=slice(0, 4))


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# numbers


def test_position_share_is_the_variance_that_positions_explain() -> None:
    tokens = draw(5, 9, 4) + 2 * draw(1, 9, 4, seed=1)
    mean = tokens.mean(dim=(0, 1))
    total = sum((tokens[b, n] - mean).square().sum().item() for b in range(5) for n in range(9)) / 45
    positions = sum((tokens[:, n].mean(dim=0) - mean).square().sum().item() for n in range(9)) / 9
    assert collapse.position_share(tokens) == pytest.approx(positions / total, rel=1e-5)
    assert collapse.position_share(draw(1, 9, 4).expand(5, 9, 4)) == pytest.approx(1.0), "all images are equal"
    assert collapse.position_share(draw(5, 1, 4).expand(5, 9, 4)) == pytest.approx(0.0, abs=1e-6), (
        "all positions are equal"
    )


def test_effective_rank_is_the_perplexity_of_the_covariances_eigenvalues() -> None:
    features = draw(40, 6) * torch.tensor([5.0, 3.0, 1.0, 1.0, 0.1, 0.0]) + 100
    eigenvalues = torch.linalg.eigvalsh(torch.cov(features.T.double())).clamp(min=1e-12)
    share = eigenvalues / eigenvalues.sum()
    assert collapse.effective_rank(features) == pytest.approx(math.exp(-(share * share.log()).sum()), rel=1e-3)
    assert collapse.rankme(features) < 1.2, "without centring the shared mean is nearly all there is"


def test_token_rank_ignores_the_mean_of_a_position() -> None:
    positions = 50 * draw(1, 9, 6, seed=1)
    tokens = positions + draw(30, 9, 2) @ draw(2, 6, seed=2)
    assert collapse.token_rank(tokens) < 2.01, "two directions, whatever the positions hold"
    assert collapse.token_rank(positions + draw(30, 9, 6)) > 5.8


POSITIONS = torch.arange(9).expand(3, 9)  # three images, every position of a 3×3 grid


def test_perfect_predictions_have_skill_one() -> None:
    targets = draw(3, 9, 4)
    assert prediction.skill(targets, targets, POSITIONS, F.mse_loss) == 1.0


def test_the_mean_of_a_position_has_no_skill() -> None:
    truth = draw(1, 9, 8, seed=1)  # the mean of a position over infinitely many images
    targets = truth + 0.3 * draw(200, 9, 8)
    index = POSITIONS[:1].expand(200, 9)
    for distance in (F.mse_loss, F.smooth_l1_loss):
        assert prediction.skill(truth.expand_as(targets), targets, index, distance) == pytest.approx(0, abs=0.01)


def test_skill_compares_with_the_error_of_the_mean_by_hand() -> None:
    targets = torch.tensor([[[0.0]], [[2.0]], [[4.0]]])  # mean 2, unbiased variance 4
    predictions = targets + 1  # squared error 1
    assert prediction.skill(predictions, targets, torch.zeros(3, 1, dtype=torch.long), F.mse_loss) == pytest.approx(
        1 - 1 / 4
    )


def test_a_position_predicted_twice_for_one_image_counts_once() -> None:
    targets, index = torch.tensor([[[0.0], [0.0]], [[2.0], [5.0]]]), torch.tensor([[0, 0], [0, 1]])
    # position 0: values 0 and 2, so variance 2; position 1 has one image only and is left out
    assert prediction.skill(targets + 1, targets, index, F.mse_loss) == pytest.approx(1 - 1 / 2)


def test_without_a_position_predicted_for_two_images_there_is_no_skill() -> None:
    targets, index = draw(2, 1, 4), torch.tensor([[0], [1]])
    assert math.isnan(prediction.skill(targets, targets, index, F.mse_loss))


def test_the_same_prediction_for_every_image_has_no_spread() -> None:
    targets = draw(3, 9, 4)
    assert prediction.spread(draw(1, 9, 4).expand(3, 9, 4), targets, POSITIONS) == pytest.approx(0, abs=1e-6)
    assert prediction.spread(0.5 * targets + draw(1, 9, 4), targets, POSITIONS) == pytest.approx(0.5)


def test_gradients_of_the_parts_make_up_the_whole(tiny_encoder) -> None:
    method = IJEPA(tiny_encoder)
    batch = Batch(draw(4, 3, 32, 32), torch.arange(4))
    method(batch, STEP).loss.backward()
    values = dict(monitors["gradients"]()(view(method, LossOutput(torch.zeros(())), batch)))
    total = math.hypot(*(p.grad.norm().item() for p in method.parameters() if p.grad is not None))
    assert math.hypot(values["gradients/context_encoder"], values["gradients/predictor"]) == pytest.approx(
        total, rel=1e-4
    )
    assert 0 < values["gradients/context_encoder_first_block"] < values["gradients/context_encoder"]
    assert "gradients/target_encoder" not in values


@pytest.mark.parametrize("name", ["collapse", "prediction", "gradients"])
def test_a_monitor_without_its_tensors_yields_no_values(name: str, tiny_encoder) -> None:
    assert list(monitors[name]()(view(IJEPA(tiny_encoder), LossOutput(torch.zeros(())), None))) == []


def test_broken_weights_are_left_to_the_loop(tiny_encoder) -> None:
    method = IJEPA(tiny_encoder)
    method.encoder.norm.weight.fill_(math.inf)
    batch = Batch(draw(4, 3, 32, 32), torch.arange(4))
    assert list(monitors["collapse"]()(view(method, LossOutput(torch.zeros(())), batch))) == []


def view(method: IJEPA, output: LossOutput, batch: Batch | None) -> View:
    return View(
        step=STEP,
        method=method,
        output=output,
        gradient_norm=0.0,
        lr=0.0,
        weight_decay=0.0,
        step_seconds=1.0,
        wait_seconds=0.0,
        batch=batch,
    )


# words

FINE = {
    "train/loss": 0.3,
    "train/gradient_norm": 0.1,
    "collapse/token_rank": 20.0,
    "collapse/feature_std": 0.3,
    "collapse/mean_cosine": 0.8,
    "collapse/position_share": 0.1,
    "prediction/skill": 0.2,
    "prediction/std": 0.4,
}


def rows(readings: int = 10, **ends: float) -> list[dict[str, Any]]:
    """A healthy run in which some numbers move to an end in a straight line; `token_rank=5` is enough of a name."""
    full = {name: next(key for key in FINE if key.endswith(name)) for name in ends}
    made = []
    for reading in range(readings):
        share = min(
            reading / (readings - 4), 1
        )  # the last readings are at the end: a verdict takes the median of three
        moved = {full[name]: FINE[full[name]] + share * (end - FINE[full[name]]) for name, end in ends.items()}
        made.append({"step": 10 * reading + 1, "wall": float(reading), **FINE, **moved})
    return made


@pytest.mark.parametrize(
    ("ends", "kind", "text"),
    [
        ({}, "healthy", "skill 0.20"),
        ({"token_rank": 30, "loss": 0.4}, "healthy", "number of directions in use grew"),
        ({"token_rank": 15, "loss": 0.2}, "healthy", "15.0, at first 20.0"),
        ({"feature_std": 0.05, "skill": -0.1}, "collapsing", "higher start of method.momentum"),
        ({"feature_std": 0.1, "skill": -0.1}, "unsure", "usual"),  # a dip, for now
        ({"feature_std": 0.05}, "healthy", "skill"),  # what all images share grows: healthy target_blocks=4
        ({"token_rank": 10}, "watch out", "target_blocks"),
        ({"token_rank": 3}, "collapsing", "from 20.0 to 3.0"),
        ({"position_share": 0.8, "loss": 0.02, "skill": -0.1}, "watch out", "method.target_centering=whiten"),
        ({"position_share": 0.8}, "healthy", "skill"),
        ({"loss": 0.9}, "diverging", "from 0.3 to 0.9"),
        ({"gradient_norm": 5.0}, "diverging", "gradient norm"),
        ({"skill": -0.1}, "unsure", "usual in the first steps"),
    ],
)
def test_a_history_gets_its_verdict(ends: dict[str, float], kind: str, text: str) -> None:
    result = verdict.judge(rows(**ends))
    assert result.kind == kind and text in result.text


@pytest.mark.parametrize(("information", "kind"), [(0.01, "watch out"), (0.13, "healthy")])
def test_a_teacher_with_the_same_output_for_all_images_is_named(information: float, kind: str) -> None:
    result = verdict.judge([{**row, "train/information": information} for row in rows()])
    assert result.kind == kind and ("0.010 nats" in result.text) == (kind == "watch out")


def test_a_run_without_skill_is_given_time_but_not_for_ever() -> None:
    assert verdict.judge(rows(readings=40, skill=-0.1)).kind == "unsure"
    assert verdict.judge(rows(readings=60, skill=-0.1)).kind == "watch out"


def test_a_dip_that_does_not_end_is_a_collapse() -> None:
    assert verdict.judge(rows(readings=40, feature_std=0.1, skill=-0.1)).kind == "unsure"
    assert verdict.judge(rows(readings=120, feature_std=0.1, skill=-0.1)).kind == "collapsing"


def test_few_readings_are_too_early_and_none_are_unknown() -> None:
    assert verdict.judge(rows(readings=20, token_rank=1)[:4]).kind == "too early"
    assert verdict.judge([]).kind == "unknown"
    assert verdict.judge([{"step": 1, "train/loss": 0.4}]).kind == "unknown"


def test_one_odd_batch_and_numbers_that_are_none_decide_nothing() -> None:
    seen = rows()
    seen[-2] |= {"collapse/token_rank": 1.0, "train/gradient_norm": math.nan, "train/loss": math.inf}
    assert verdict.judge(seen).kind == "healthy"


def test_a_run_from_before_the_watch_gets_the_right_reason() -> None:
    result = verdict.judge([{"step": step, "collapse/rankme": 9.0, "train/loss": 0.3} for step in range(1, 9)])
    assert result.kind == "unknown" and "older than the watch" in result.text


def test_runs_without_skill_and_spread_are_judged_by_their_other_metrics() -> None:
    names = ("step", "collapse/token_rank", "train/loss")
    assert verdict.judge([{key: row[key] for key in names} for row in rows()]).kind == "healthy"


def test_probes_warn_only_when_all_of_them_fall() -> None:
    seen = rows()
    for index, (knn, logistic) in {0: (0.3, 0.4), 4: (0.2, 0.3), 6: (0.2, 0.3), 9: (0.2, 0.3)}.items():
        seen[index] |= {"probe/knn": knn, "probe/logistic": logistic}
    assert verdict.judge(seen).kind == "watch out" and "30.0% to 20.0%" in verdict.judge(seen).text
    for index in (4, 6, 9):
        seen[index]["probe/logistic"] = 0.41
    assert verdict.judge(seen).kind == "healthy"


def test_the_lowest_loss_is_a_median_and_knows_its_step() -> None:
    values = [0.5, 0.4, 0.0, 0.3, 0.2, 0.3, 0.4]
    assert History([{"step": step, "x": value} for step, value in enumerate(values)]).lowest("x") == (4, 0.2)


def test_changes_name_each_new_kind_once() -> None:
    kinds = [each.kind for _, each in verdict.changes(rows(readings=30, token_rank=2))]
    assert kinds == ["too early", "healthy", "watch out", "collapsing"]


# the watch of a run


def watched(
    mode: str, history: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], known: int = 0
) -> tuple[Watch, str]:
    watch = Watch(mode, history[:known])
    for row in history[known:]:
        watch(row["step"], {name: value for name, value in row.items() if name not in ("step", "wall")})
    return watch, capsys.readouterr().err


def test_a_bad_verdict_is_printed_once_and_again_when_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    watch, messages = watched("warn", rows(readings=30, token_rank=2), capsys)
    assert messages.count("watch, step") == 2 and "watch out:" in messages and "collapsing:" in messages
    assert watch.state == "collapsing" and not watch.wants_stop


def test_healthy_runs_get_no_message_and_off_is_off(capsys: pytest.CaptureFixture[str]) -> None:
    assert watched("stop", rows(readings=30), capsys)[1] == ""
    watch, messages = watched("off", rows(readings=30, token_rank=2), capsys)
    assert messages == "" and watch.state == "" and not watch.wants_stop


def test_stop_ends_hopeless_runs_and_not_doubtful_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert watched("stop", rows(readings=30, token_rank=2), capsys)[0].wants_stop
    assert not watched("stop", rows(readings=30, token_rank=10), capsys)[0].wants_stop


def test_a_resumed_run_does_not_repeat_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert watched("warn", rows(readings=30, token_rank=2), capsys, known=28)[1] == ""


def test_the_setting_is_read_from_yaml_words() -> None:
    assert configs.load({}).watch == "warn"
    assert configs.load({}, ["watch=off"]).watch == "off" and configs.load({"watch": False}).watch == "off"
    with pytest.raises(BadInput, match="watch"):
        configs.load({}, ["watch=perhaps"])
    with pytest.raises(BadInput, match="watch=stop needs the collapse monitor"):
        check(configs.load({}, ["watch=stop", "monitors.collapse=off"]))


def test_watch_and_monitors_may_differ_on_resume() -> None:
    assert resume._is_harmless("watch") and resume._is_harmless("monitors.collapse.every")
    assert not resume._is_harmless("optim.lr")


def test_the_report_shows_the_verdict_and_what_came_before(tmp_path) -> None:
    folder = report_record.RunFolder(tmp_path)
    record = report_record.Record(folder, configs.load({}), Provenance(), rows(readings=30, token_rank=2), [], [])
    body = page.render_section(overview.training(record))
    assert '<p class="warning"><b>Collapsing</b>, since step' in body and "from 20.0 to 2.0" in body
    assert "Earlier verdicts of the watch" in body and "watch out: the number of directions in use" in body


def test_the_list_of_runs_has_the_verdict(tmp_path) -> None:
    folder = report_record.RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.config.write_text(configs.dump(configs.load({})), encoding="utf-8")
    (row,) = runs.list_runs(tmp_path)
    assert row["watch"] == "unknown"
