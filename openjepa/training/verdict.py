"""The watch that explains: from the numbers of a run to a sentence with one piece of advice.

A pure function of what metrics.jsonl holds, so the console, a resumed run and the report all say the same. The rules stand
in RULES; the first that has something to say speaks. A comparison with nan is false: a rule without its numbers is
silent. Thresholds come from what others reported and from the runs in docs/watch.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from openjepa.training.history import History

Kind = Literal["unknown", "too early", "healthy", "unsure", "watch out", "collapsing", "diverging"]
BAD: tuple[Kind, ...] = ("watch out", "collapsing", "diverging")
HOPELESS: tuple[Kind, ...] = ("collapsing", "diverging")  # what `watch: stop` stops for

LOSS, GRADIENT = "train/loss", "train/gradient_norm"
RANK, SPREAD, COSINE = "collapse/token_rank", "collapse/feature_std", "collapse/mean_cosine"
POSITION, SKILL = "collapse/position_share", "prediction/skill"
INFORMATION = "train/information"  # of methods with prototypes

FEWEST_LOOKS = 5
LOSS_EXPLODES = 1.5  # times the first loss; healthy runs stayed below 1.0, a learning rate of 1 reached 24
GRADIENT_EXPLODES = 10.0  # times the first; healthy runs stayed below 1, single spikes aside
SPREAD_LOST = 0.25  # of the first, without skill; a run that came back from a dip had kept 0.29 …
SPREAD_LOW, LONG = 0.5, 20  # … and stayed below one half for 13 looks at the default pace of 50 a run
RANK_NARROW, RANK_LOST = 0.55, 0.25  # of the first; runs above random weights kept 0.69, those below had 0.50 and less
MOSTLY_PLACE, TINY_LOSS = 0.5, 0.05  # reported: 0.005 is collapse, 0.1 is a healthy ViT-H; small runs: 0.01 to 0.03
NO_SKILL = 0.02
SAYS_NOTHING = 0.03  # nats; a dino that had stopped learning had 0.01, those that learned 0.13 and more
PATIENCE = 500  # steps, and LONG looks; learning runs had skill after 20 to 230 steps
LOSS_RISES = 1.05  # times the lowest
MOST_CHANGES = 200  # looks behind a list of changes: a run may have very many
PROBE_FALLS = 0.03  # accuracy; 1,000 test pictures know it to about 0.015


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
    """Rows of metrics.jsonl -> what they mean."""
    history = History(rows)
    return next(found for rule in RULES if (found := rule(history)) is not None)


def changes(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, Verdict]]:
    """(step, verdict) each time that another kind of verdict was reached."""
    places = [place for place, row in enumerate(rows) if is_look(row)]
    kept = places[:: max(len(places) // MOST_CHANGES, 1)] + places[-1:]
    found: list[tuple[int, Verdict]] = []
    for place in kept:
        verdict = judge(rows[: place + 1])
        if not found or found[-1][1].kind != verdict.kind:
            found.append((rows[place]["step"], verdict))
    return found


def is_look(values: Mapping[str, Any]) -> bool:
    """Verdicts are reached when the collapse monitor has looked, not at every line."""
    return RANK in values


def nothing_recorded(seen: History) -> Verdict | None:
    if seen.points(RANK):
        return None
    return Verdict(
        "unknown", "no collapse/token_rank was recorded: monitors.collapse is off, or the run is older than the watch"
    )


def too_early(seen: History) -> Verdict | None:
    looks = len(seen.points(RANK))
    if looks >= FEWEST_LOOKS:
        return None
    return Verdict("too early", f"{looks} of the {FEWEST_LOOKS} looks that a verdict needs")


def diverging(seen: History) -> Verdict | None:
    for name, limit, words in ((LOSS, LOSS_EXPLODES, "loss"), (GRADIENT, GRADIENT_EXPLODES, "gradient norm")):
        if seen.ratio(name) > limit:
            change = f"the {words} went from {seen.first(name):.3g} to {seen.now(name):.3g}"
            return Verdict("diverging", f"{change}; try a lower optim.lr, a longer optim.warmup or optim.clip=1")
    return None


def knows_only_places(seen: History) -> Verdict | None:
    share, loss, skill = seen.now(POSITION), seen.now(LOSS), seen.now(SKILL)
    if not (share > MOSTLY_PLACE and loss < TINY_LOSS and skill < NO_SKILL):
        return None
    numbers = f"{share:.0%} of a token is its place, the loss is {loss:.3f} and skill {skill:.2f}"
    return Verdict("watch out", f"the targets are mostly where, not what ({numbers}); {CENTRING}")


CENTRING = "try method.target_centering=whiten and a larger model.patch_init such as 0.15, if they are not set yet"


def all_alike(seen: History) -> Verdict | None:
    is_long = seen.step > PATIENCE and seen.stays_below(SPREAD, SPREAD_LOW, LONG)
    is_low = seen.ratio(SPREAD) < SPREAD_LOST or is_long
    if not (is_low and seen.now(SKILL) < NO_SKILL):
        return None
    spread = f"spread over images fell from {seen.first(SPREAD):.2f} to {seen.now(SPREAD):.2f}"
    cosine = f"two images have a cosine of {seen.now(COSINE):.3f}"
    return Verdict(
        "collapsing",
        f"all pictures become alike: {spread}, {cosine}, and predictions are no better than the mean of their place "
        f"(skill {seen.now(SKILL):.2f}); try a lower optim.lr or a higher start of method.momentum",
    )


def narrowing(seen: History) -> Verdict | None:
    ratio = seen.ratio(RANK)
    if not ratio < RANK_NARROW:
        return None
    change = f"directions in use fell from {seen.first(RANK):.1f} to {seen.now(RANK):.1f}"
    if ratio < RANK_LOST:
        return Verdict("collapsing", f"{change}: a few of them take over; {BLOCKS}")
    return Verdict("watch out", f"{change}; runs like that ended below random weights; {BLOCKS}")


BLOCKS = "try a lower optim.lr, a higher start of method.momentum, or method.target_blocks=all"


def says_nothing(seen: History) -> Verdict | None:
    information = seen.now(INFORMATION)
    if not information < SAYS_NOTHING:
        return None
    return Verdict(
        "watch out",
        f"the teacher gives all pictures nearly the same answer ({information:.3f} nats about which one it is); "
        "try weaker method.crops.jitter and no solarise, another optim.lr, and for dino and ibot a lower teacher_temperature",
    )


def probes_fall(seen: History) -> Verdict | None:
    """Only when all of them do: a k-NN may fall while a linear probe rises (docs/log.md 2026-11-15, colour)."""
    names = sorted({name for row in seen.rows for name in row if name.startswith("probe/")})
    if not names or not all(seen.now(name) < seen.first(name) - PROBE_FALLS for name in names):
        return None
    falls = " and ".join(f"{name} from {seen.first(name):.1%} to {seen.now(name):.1%}" for name in names)
    return Verdict("watch out", f"labels are read off worse than at the start: {falls}; {BLOCKS}")


def no_skill(seen: History) -> Verdict | None:
    skill = seen.now(SKILL)
    if not skill < NO_SKILL:
        return None
    if seen.step > PATIENCE and len(seen.points(SKILL)) > LONG:
        text = f"after {seen.step} steps predictions still ignore the context (skill {skill:.2f})"
        return Verdict("watch out", f"{text}; try a higher optim.lr or smaller method.masks.target_scale")
    return Verdict("unsure", f"predictions do not use the context yet (skill {skill:.2f}); usual in the first steps")


def moving_target(seen: History) -> Verdict | None:
    step, lowest = seen.lowest(LOSS)
    before, rank = seen.until(step).now(RANK), seen.now(RANK)
    if not (seen.now(LOSS) > LOSS_RISES * lowest and rank > before):
        return None
    rise = f"the loss rose from {lowest:.3f} to {seen.now(LOSS):.3f} since step {step}"
    return Verdict("healthy", f"{rise} while directions in use grew from {before:.1f} to {rank:.1f}: {NORMAL}")


NORMAL = "normal for a moving target"


def healthy(seen: History) -> Verdict | None:
    skill, rank = seen.now(SKILL), seen.now(RANK)
    said = f"predictions beat the mean of their place (skill {skill:.2f}), " if skill == skill else ""
    return Verdict("healthy", f"{said}directions in use {rank:.1f}, at first {seen.first(RANK):.1f}")


RULES: tuple[Callable[[History], Verdict | None], ...] = (
    nothing_recorded,
    too_early,
    diverging,
    knows_only_places,
    all_alike,
    narrowing,
    says_nothing,
    probes_fall,
    no_skill,
    moving_target,
    healthy,
)
