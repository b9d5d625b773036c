"""Runs a study: checks everything first, runs what is missing, and writes table, page and numbers after every run."""

from pathlib import Path

from openjepa.core import config as configs
from openjepa.core.errors import BadInput, OpenJepaError
from openjepa.data.batches import build as batches
from openjepa.data.open import open_source
from openjepa.evaluation import probing
from openjepa.evaluation.request import check_baselines
from openjepa.evaluation.tasks.lookup import find
from openjepa.methods import build
from openjepa.runs.directory import write_json, write_text
from openjepa.runs.lock import Lock
from openjepa.studies import page, results, table
from openjepa.studies.folder import StudyFolder
from openjepa.studies.processes import Runner
from openjepa.studies.results import Row
from openjepa.studies.study import Study
from openjepa.training import setup


def run(study: Study, path: Path, *, jobs: int = 1, command: str) -> list[Row]:
    """`command` is what a user types to resume."""
    folder = StudyFolder(path)
    check(study)
    folder.check(study)
    with Lock(path) as lock:
        folder.save(study)
        failures = []
        for failure in Runner(study, folder, lock, jobs).run():
            failures += [failure] if failure else []
            rows = write(study, folder, command)
    if failures:
        raise OpenJepaError(
            f"{len(failures)} of {len(study.cells())} runs are missing, the first: {failures[0]}. "
            f"Partial results: {folder.table}. Run the same command to resume"
        )
    return rows


def check(study: Study) -> None:
    """Every arm, the data, tasks and probes, before the first run: a typo in the last arm must not cost a night."""
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
            raise BadInput('a study does not accept the task "all"; name each task')
        find(task, None)
    for probe in study.terms.probes:
        probing.options_of(probe, {})
    check_baselines(study.terms.baselines)


def write(study: Study, folder: StudyFolder, command: str) -> list[Row]:
    rows = results.collect(study, folder)
    write_json(folder.results, table.as_dict(study, rows))
    write_text(folder.table, table.markdown(study, rows))
    write_text(folder.page, page.render(study, rows, command=command))
    return rows
