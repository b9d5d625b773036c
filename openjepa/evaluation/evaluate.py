"""`openjepa evaluate`: which encoder, which tasks, which probes. What is then done stands in evaluation.py."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from torch import nn

from openjepa.core.contracts import probes
from openjepa.core.errors import BadInput
from openjepa.core.registry import did_you_mean
from openjepa.evaluation.candidate import open_subject
from openjepa.evaluation.probing import FINETUNE, LINEAR, Blocks
from openjepa.evaluation.run import Evaluation, Wanted
from openjepa.evaluation.tasks.definition import tasks
from openjepa.evaluation.tasks.lookup import available, data_root
from openjepa.evaluation.tasks.task import open_task
from openjepa.machine import console
from openjepa.runs.scores import Score
from openjepa.weights.load import Which

EVERYTHING = "all"


def evaluate(
    encoder_or_run: str | Path | nn.Module,
    task: str | Sequence[str],
    *,
    probe: str | Sequence[str] | None = None,
    labels: str | None = None,
    draws: int | None = None,
    encoder: Which = "target",
    features: Blocks = "last",
    views: int = 0,
    image_size: int | tuple[int, int] | None = None,
    data: str | Path | None = None,
    num_train: int | None = None,
    num_test: int | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    random: nn.Module | None = None,
    checks_leaks: bool = True,
    uses_cache: bool = True,
) -> list[Score]:
    """Scores of a run, a checkpoint, or any module that maps images [B, 3, h, w] to [B, N, D] or [B, D].

    `task` is a name such as "scenes-count" or "cifar10:DIR", a labelled folder, a list of these, or "all" that lie in the
    folder `data`. `settings` are options by probe, {"linear": {"epochs": 10}}. `random` is the baseline for a module that
    cannot draw new weights by itself. A module sees images normalised with ImageNet's mean and deviation.
    Scores of a run are kept in RUN/evals.
    """
    wanted = Wanted(
        probes=None if probe is None else (probe,) if isinstance(probe, str) else tuple(dict.fromkeys(probe)),
        labels=labels,
        draws=draws,
        features=features,
        views=views,
        settings=settings or {},
        checks_leaks=checks_leaks,
        uses_cache=uses_cache,
    )
    _check(wanted)
    subject = open_subject(encoder_or_run, which=encoder, image_size=image_size, random=random)
    root = data_root(None if data is None else Path(data))
    names = _task_names([task] if isinstance(task, str) else task, root)
    opened = [
        open_task(name, image_size=subject.image_size, root=root, num_train=num_train, num_test=num_test)
        for name in names
    ]
    return Evaluation(subject, wanted).run(opened)


def _check(wanted: Wanted) -> None:
    known = [*probes.names(), FINETUNE]
    for name in [*(wanted.probes or ()), *wanted.settings]:
        if name not in known:
            raise BadInput(f'unknown probe "{name}"{did_you_mean(name, known)}')
    if wanted.probes == ():
        raise BadInput(f"no probe is given; choose some of {', '.join(known)}")
    for name in wanted.settings:
        if wanted.probes is not None and name not in wanted.probes:
            raise BadInput(f"there are settings for {name}, which is not among the probes {', '.join(wanted.probes)}")
    if wanted.draws is not None and wanted.draws < 1:
        raise BadInput(f"draws is {wanted.draws}; expected 1 or more")
    if wanted.views < 0:
        raise BadInput(f"views is {wanted.views}; expected 0 (the fixed crop only) or more random crops")
    if wanted.views and wanted.probes is not None and LINEAR not in wanted.probes:
        raise BadInput(f"only {LINEAR} learns from random crops; add it to the probes, or leave out views")
    if wanted.features not in get_args(Blocks):
        raise BadInput(f'features is "{wanted.features}"; expected {" or ".join(get_args(Blocks))}')


def _task_names(given: Sequence[str], root: Path | None) -> list[str]:
    if not given:
        raise BadInput("no task is given; expected a name such as scenes-count, a labelled folder, or all")
    if EVERYTHING not in given:
        return list(dict.fromkeys(given))
    found = available(root)
    absent = [name for name in tasks.names() if name not in found and name != "folder"]
    if absent:
        where = f"in {root}" if root is not None else "known; name their folder with --data or OPENJEPA_DATA"
        console.notice(f"left out, their data are not {where}: {', '.join(absent)}")
    return list(dict.fromkeys([*(name for name in given if name != EVERYTHING), *found]))
