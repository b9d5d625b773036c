"""Conducts a study: checks everything that can be checked, runs what is missing, writes table, page and numbers after every run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from openjepa.core import config as configs
from openjepa.core import settings
from openjepa.core.errors import BadInput, OpenJepaError
from openjepa.data.batches import build as batches
from openjepa.data.open import open_source
from openjepa.evaluation import probing
from openjepa.evaluation.tasks.lookup import find
from openjepa.methods import build
from openjepa.planning import cost
from openjepa.runs.directory import write_json, write_text
from openjepa.runs.lock import Lock
from openjepa.studies import page, results, table
from openjepa.studies.processes import Runner
from openjepa.studies.results import Row
from openjepa.studies.study import Study, StudyFolder, check_folder, write_question
from openjepa.training import recipe, setup


def conduct(study: Study, path: Path, *, jobs: int = 1, command: str) -> list[Row]:
    """`command` is what a user would say to go on."""
    folder = StudyFolder(path)
    check(study)
    check_folder(folder, study)
    with Lock(path) as lock:
        write_question(folder, study)
        failures = []
        for failure in Runner(study, folder, lock, jobs).run():
            failures += [failure] if failure else []
            rows = write(study, folder, command)
    if failures:
        raise OpenJepaError(
            f"{len(failures)} of {len(study.cells())} runs are missing, the first: {failures[0]}. What there is stands in "
            f"{folder.table}; the same command goes on"
        )
    return rows


def check(study: Study) -> None:
    """Every arm, the data, tasks and probes, before the first run: a typo in the last arm costs no night."""
    opened = set()
    for arm in study.arms:
        config = setup.resolve(configs.load(study.settings(arm, study.terms.seeds[0])))
        build.outline(config)
        data = (config.data.source, config.data.height_width)
        if data not in opened:
            batches.check_data(config, open_source(data[0], image_size=data[1]))
            opened.add(data)
    for task in study.terms.tasks:
        if task == "all":
            raise BadInput('a study names its tasks one by one; "all" is for openjepa evaluate')
        find(task, None)
    for probe in study.terms.probes:
        probing.resolved(probe, {})


def write(study: Study, folder: StudyFolder, command: str) -> list[Row]:
    rows = results.collect(study, folder)
    write_json(folder.results, table.as_dict(study, rows))
    write_text(folder.table, table.markdown(study, rows))
    write_text(folder.page, page.render(study, rows, command=command))
    return rows


def base_settings(
    file: str | Path | None, words: Mapping[str, Any], overrides: Sequence[str], *, watched: str
) -> dict[str, Any]:
    """What all arms share: a file, then words of the command line, then overrides.

    Unless the settings name a probe of their own, a small one on the task `watched` is fitted during the runs, for curves.
    """
    base = settings.copied(recipe.read(file)) if file is not None else {}
    given = [settings.parse_override(override) for override in overrides]
    for path, value in [*((path, value) for path, value in words.items() if value is not None), *given]:
        settings.put(base, path, value)
    lengths = [path for path, _ in given if path in settings.BUDGETS]
    if lengths:
        raise BadInput(
            f"--set {lengths[0]} is not possible here: the budget is --minutes, --epochs or --flops, for all alike"
        )
    if "probe" not in (base.get("monitors") or {}):
        settings.put(base, "monitors.probe", {"task": watched, "every": "10%"})
    return base


def with_equal_flops(study: Study, flops: float) -> Study:
    """Each arm gets as many steps as this many floating-point operations allow; counted as by `openjepa plan`."""
    if not math.isfinite(flops) or flops <= 0:
        raise BadInput(f"--flops is {flops}; expected a number of operations, such as 1e15")
    arms = []
    for arm in study.arms:
        config = setup.resolve(configs.load(study.settings(arm, study.terms.seeds[0])))
        size = config.train.batch_size
        work = cost.count(config, num_images=size, precision="float32")
        steps = round(flops / (work.flops * size))
        if not steps:
            raise BadInput(f"{flops:g} FLOP are less than one step of {arm.name}, which takes {work.flops * size:.3g}")
        arms.append(replace(arm, settings={**arm.settings, "train.steps": steps}))
    return replace(study, arms=tuple(arms))
