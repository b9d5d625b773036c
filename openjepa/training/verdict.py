"""Judges a run: from its metrics to one sentence with one piece of advice.

A pure function of metrics.jsonl, so the console, a resumed run and the report agree. RULES lists the rules in order; the
first rule that applies gives the verdict. A comparison with nan is false, so a rule without its numbers does not apply.
Thresholds come from published reports and from the runs in docs/watch.md. A reading is one row of the collapse monitor.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from openjepa.training.history import History

Kind = Literal["unknown", "too early", "healthy", "unsure", "watch out", "collapsing", "diverging"]
BAD: tuple[Kind, ...] = ("watch out", "collapsing", "diverging")
HOPELESS: tuple[Kind, ...] = ("collapsing", "diverging")  # `watch: stop` stops these runs

LOSS, GRADIENT = "train/loss", "train/gradient_norm"
RANK, SPREAD, COSINE = "collapse/token_rank", "collapse/feature_std", "collapse/mean_cosine"
POSITION, SKILL = "collapse/position_share", "prediction/skill"
INFORMATION = "train/information"  # of methods with prototypes

MIN_READINGS = 5
LOSS_EXPLODES = 1.5  # times the first loss; healthy runs stayed below 1.0, a learning rate of 1 reached 24
GRADIENT_EXPLODES = 10.0  # times the first; healthy runs stayed below 1, single spikes aside
SPREAD_LOST = 0.25  # of the first, without skill; a run that recovered from a dip still had 0.29 …
SPREAD_LOW, LONG = 0.5, 20  # … and stayed below one half for 13 readings of the default 50
# of the first rank; runs that beat random weights still had 0.69, the others 0.50 or less
RANK_NARROW, RANK_LOST = 0.55, 0.25
MOSTLY_POSITION, TINY_LOSS = 0.5, 0.05  # reported: 0.005 is collapse, 0.1 is a healthy ViT-H; small runs: 0.01 to 0.03
NO_SKILL = 0.02
LITTLE_INFORMATION = 0.03  # nats; a dino run that had stopped learning had 0.01, learning runs 0.13 and more
PATIENCE = 500  # steps, and LONG readings; learning runs had skill after 20 to 230 steps
LOSS_RISES = 1.05  # times the lowest
MAX_JUDGED = 200  # readings that `changes` judges: a long run has very many
PROBE_FALLS = 0.03  # accuracy; its standard error on 1,000 test images is about 0.015


@dataclass(frozen=True)
class Verdict:
    kind: Kind
    text: str

    @property
    def is_bad(self) -> bool:
        return self.kind in BAD

    @property
    def is_hopeless(self) -> bool:
        return self.kind in HOPELESS

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def judge(rows: Sequence[Mapping[str, Any]]) -> Verdict:
    """Rows of metrics.jsonl -> the verdict of the first rule that applies."""
    history = History(rows)
    return next(verdict for rule in RULES if (verdict := rule(history)) is not None)


def changes(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, Verdict]]:
    """(step, verdict) each time the kind of verdict changed."""
    readings = [index for index, row in enumerate(rows) if is_reading(row)]
    verdicts: list[tuple[int, Verdict]] = []
    for index in readings[:: max(len(readings) // MAX_JUDGED, 1)] + readings[-1:]:
        verdict = judge(rows[: index + 1])
        if not verdicts or verdicts[-1][1].kind != verdict.kind:
            verdicts.append((rows[index]["step"], verdict))
    return verdicts


def is_reading(values: Mapping[str, Any]) -> bool:
    """Whether a row has values of the collapse monitor; only these rows can change a verdict."""
    return RANK in values


def nothing_recorded(seen: History) -> Verdict | None:
    if seen.points(RANK):
        return None
    return Verdict(
        "unknown",
        "metrics.jsonl has no collapse/token_rank: monitors.collapse is off, or the run is older than the watch",
    )


def too_early(seen: History) -> Verdict | None:
    readings = len(seen.points(RANK))
    if readings >= MIN_READINGS:
        return None
    return Verdict("too early", f"a verdict needs {MIN_READINGS} readings; there are {readings}")


def diverging(seen: History) -> Verdict | None:
    for name, limit, words in ((LOSS, LOSS_EXPLODES, "loss"), (GRADIENT, GRADIENT_EXPLODES, "gradient norm")):
        if seen.ratio(name) > limit:
            change = f"the {words} rose from {seen.first(name):.3g} to {seen.now(name):.3g}"
            return Verdict("diverging", f"{change}; try a lower optim.lr, a longer optim.warmup or optim.clip=1")
    return None


def knows_only_positions(seen: History) -> Verdict | None:
    share, loss, skill = seen.now(POSITION), seen.now(LOSS), seen.now(SKILL)
    if not (share > MOSTLY_POSITION and loss < TINY_LOSS and skill < NO_SKILL):
        return None
    numbers = f"position explains {share:.0%} of the variance, loss {loss:.3f}, skill {skill:.2f}"
    return Verdict("watch out", f"the targets depend mostly on position, not on content ({numbers}); {CENTERING}")


CENTERING = "try method.target_centering=whiten and a larger model.patch_init such as 0.15, if they are not set yet"


def all_alike(seen: History) -> Verdict | None:
    is_long = seen.step > PATIENCE and seen.stays_below(SPREAD, SPREAD_LOW, LONG)
    is_low = seen.ratio(SPREAD) < SPREAD_LOST or is_long
    if not (is_low and seen.now(SKILL) < NO_SKILL):
        return None
    spread = f"the spread over images fell from {seen.first(SPREAD):.2f} to {seen.now(SPREAD):.2f}"
    cosine = f"the mean cosine of two images is {seen.now(COSINE):.3f}"
    return Verdict(
        "collapsing",
        f"the features of all images become alike: {spread}, {cosine}, and predictions are no better than the mean of their "
        f"position (skill {seen.now(SKILL):.2f}); try a lower optim.lr or a higher start of method.momentum",
    )


def narrowing(seen: History) -> Verdict | None:
    ratio = seen.ratio(RANK)
    if not ratio < RANK_NARROW:
        return None
    change = f"the number of directions in use fell from {seen.first(RANK):.1f} to {seen.now(RANK):.1f}"
    if ratio < RANK_LOST:
        return Verdict("collapsing", f"{change}: a few directions dominate; {BLOCKS}")
    return Verdict("watch out", f"{change}; such runs ended below random weights; {BLOCKS}")


BLOCKS = "try a lower optim.lr, a higher start of method.momentum, or method.target_blocks=all"


def little_information(seen: History) -> Verdict | None:
    information = seen.now(INFORMATION)
    if not information < LITTLE_INFORMATION:
        return None
    return Verdict(
        "watch out",
        f"the teacher gives nearly the same output for all images ({information:.3f} nats about which image it is); "
        "try weaker method.crops.jitter and no solarise, another optim.lr, and for dino and ibot a lower teacher_temperature",
    )


def probes_fall(seen: History) -> Verdict | None:
    """Only when all probes fall: a k-NN may fall while a linear probe rises (docs/log.md 2026-11-15, colour)."""
    names = sorted({name for row in seen.rows for name in row if name.startswith("probe/")})
    if not names or not all(seen.now(name) < seen.first(name) - PROBE_FALLS for name in names):
        return None
    falls = " and ".join(f"{name} from {seen.first(name):.1%} to {seen.now(name):.1%}" for name in names)
    return Verdict("watch out", f"probe accuracy fell below its starting value: {falls}; {BLOCKS}")


def no_skill(seen: History) -> Verdict | None:
    skill = seen.now(SKILL)
    if not skill < NO_SKILL:
        return None
    if seen.step > PATIENCE and len(seen.points(SKILL)) > LONG:
        text = f"after {seen.step} steps predictions still ignore the context (skill {skill:.2f})"
        return Verdict("watch out", f"{text}; try a higher optim.lr or smaller method.masks.target_scale")
    return Verdict(
        "unsure", f"predictions do not use the context yet (skill {skill:.2f}); this is usual in the first steps"
    )


def moving_target(seen: History) -> Verdict | None:
    step, lowest = seen.lowest(LOSS)
    before, rank = seen.until(step).now(RANK), seen.now(RANK)
    if not (seen.now(LOSS) > LOSS_RISES * lowest and rank > before):
        return None
    rise = f"the loss rose from {lowest:.3f} to {seen.now(LOSS):.3f} since step {step}"
    return Verdict(
        "healthy", f"{rise} while the number of directions in use grew from {before:.1f} to {rank:.1f}: {NORMAL}"
    )


NORMAL = "normal for a moving target"


def healthy(seen: History) -> Verdict | None:
    skill, rank = seen.now(SKILL), seen.now(RANK)
    skilled = f"predictions beat the mean of their position (skill {skill:.2f}), " if skill == skill else ""
    return Verdict("healthy", f"{skilled}directions in use: {rank:.1f}, at first {seen.first(RANK):.1f}")


RULES: tuple[Callable[[History], Verdict | None], ...] = (
    nothing_recorded,
    too_early,
    diverging,
    knows_only_positions,
    all_alike,
    narrowing,
    little_information,
    probes_fall,
    no_skill,
    moving_target,
    healthy,
)
