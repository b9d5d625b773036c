"""Trains and evaluates what a study still lacks. Each run has processes of its own: a failure or its memory stays there."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from openjepa.core.errors import OpenJepaError
from openjepa.machine import console
from openjepa.machine.signals import Stop
from openjepa.runs import provenance, scores
from openjepa.runs.directory import write_text
from openjepa.runs.lock import Lock
from openjepa.studies.folder import StudyFolder
from openjepa.studies.study import Arm, Study

PREFIX = "openjepa: "  # of the message that a failed command ends with


@dataclass(frozen=True)
class Runner:
    study: Study
    folder: StudyFolder
    lock: Lock  # child processes hold it too: one that outlives us blocks a second study
    jobs: int = 1  # runs side by side; each gets its share of the cores

    def run(self) -> Iterator[str]:
        """After each cell: why it failed, or "". The other cells run all the same."""
        with Stop() as stop, ThreadPoolExecutor(self.jobs) as pool:
            cells = enumerate(self.study.cells(), start=1)
            jobs = [pool.submit(self._cell, arm, seed, number, stop) for number, (arm, seed) in cells]
            for job in as_completed(jobs):
                yield job.result()

    def _cell(self, arm: Arm, seed: int, number: int, stop: Stop) -> str:
        name = f"{arm.name}, seed {seed}"
        try:
            failure = self._train(arm, seed, f"{number}/{len(self.study.cells())} · {name}", stop)
            for task in self.study.terms.tasks:
                failure = failure or self._evaluate(arm, seed, task, stop)
        except (OpenJepaError, OSError) as error:  # a damaged file or a full disk costs one cell
            failure = str(error)
        return f"{name}: {failure}" if failure else ""

    def _train(self, arm: Arm, seed: int, name: str, stop: Stop) -> str:
        run = self.folder.run(arm, seed)
        if provenance.status(run) == "finished":
            return ""
        if stop.is_requested:
            return "not started"
        console.notice(f"{name} · training")
        config, settings = self.folder.config(arm, seed), self.study.settings(arm, seed)
        settings.setdefault("train", {}).setdefault("processes", 1)  # jobs share the cores; equal for all arms
        write_text(config, yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))
        resume = ["--resume"] if run.holds_a_run else []
        failure = self._call(["pretrain", str(config), "--run", str(run.path), *resume], run.path, stop)
        return failure or ("" if provenance.status(run) == "finished" else "stopped")

    def _evaluate(self, arm: Arm, seed: int, task: str, stop: Stop) -> str:
        path, run, terms = self.folder.scores(arm, seed), self.folder.run(arm, seed).path, self.study.terms
        done = scores.read(path)
        measured = {(score.probe, score.representation) for score in done if score.task == task}
        needed = (scores.TRAINED, *terms.baselines)
        missing = [probe for probe in terms.probes if not {(probe, name) for name in needed} <= measured]
        if not missing:
            return ""
        if stop.is_requested:
            return f"not evaluated on {task}"
        console.notice(f"{arm.name}, seed {seed} · evaluating on {task}")
        words = ["evaluate", str(run), "--json", "--task", task, "--features", terms.features]
        words += [word for probe in sorted(missing) for word in ("--probe", probe)]
        words += [word for name in terms.baselines for word in ("--baseline", name)]
        words += ["--labels", terms.labels] if terms.labels else []
        output = path.with_suffix(".part")
        failure = self._call(words, run, stop, output)
        if not failure:
            new = [replace(score, task=task) for score in scores.read(output)]  # under the study's name for the task
            scores.write(path, [*done, *new])
        output.unlink()
        return failure

    def _call(self, words: list[str], run: Path, stop: Stop, output: Path = Path(os.devnull)) -> str:
        """-> why it failed, or "". Its messages go to a log beside the run, what it prints to `output`."""
        log = run.with_name(f"{run.name}.log")
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as messages, output.open("wb") as printed:
            start = messages.tell()
            imports = [word for file in self.study.terms.base.get("imports") or () for word in ("--import", file)]
            command = [sys.executable, "-m", "openjepa", *words, *imports]
            child = subprocess.Popen(command, stdout=printed, stderr=messages, **self._surroundings())
            while _is_running(child):
                if stop.is_requested:
                    child.terminate()  # once: it saves, and a later call resumes
                    child.wait()
        if child.returncode == 0:
            return ""
        if child.returncode < 0 and stop.is_requested:
            return "stopped"
        if child.returncode < 0:
            return f"killed by signal {-child.returncode} (out of memory?); see {log}"
        text = log.read_bytes()[start:].decode(errors="replace")
        return f"{_last_message(text)} (exit code {child.returncode}, see {log})"

    def _surroundings(self) -> dict[str, Any]:
        environment = dict(os.environ)
        if self.jobs > 1:
            environment["OMP_NUM_THREADS"] = str(max((os.cpu_count() or 1) // self.jobs, 1))
        if os.name != "posix":
            return {"env": environment}
        # A process group of its own: Ctrl-C reaches us, and we stop the child.
        return {"env": environment, "process_group": 0, "pass_fds": self.lock.files}


def _is_running(child: subprocess.Popen[bytes]) -> bool:
    """Waits up to a second."""
    with suppress(subprocess.TimeoutExpired):
        child.wait(1)
    return child.returncode is None


def _last_message(text: str) -> str:
    """It may have several lines."""
    _, prefix, message = text.rpartition(PREFIX)
    return " ".join((message if prefix else text[-200:]).split()) or "failed without a message"
