"""Runs what a study still lacks: every arm and seed in processes of its own, so that memory and failures are its own, too."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from openjepa.core.errors import OpenJepaError
from openjepa.machine import console
from openjepa.machine.signals import Stop
from openjepa.runs import provenance
from openjepa.runs.directory import write_json, write_text
from openjepa.runs.lock import Lock
from openjepa.runs.scores import read
from openjepa.studies.study import Arm, Study, StudyFolder

SAID = "openjepa: "  # what the last words of a command that failed begin with


@dataclass(frozen=True)
class Runner:
    study: Study
    folder: StudyFolder
    lock: Lock  # children hold it, too: one that outlives us keeps a second study out
    jobs: int = 1  # runs side by side; each gets its share of the cores

    def run(self) -> Iterator[str]:
        """After each cell what went wrong with it, a sentence, or nothing; the rest is done all the same."""
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
                failure = failure or self._judge(arm, seed, task, stop)
        except (OpenJepaError, OSError) as error:  # a damaged file, a full disk: costs one cell
            failure = str(error)
        return f"{name}: {failure}" if failure else ""

    def _train(self, arm: Arm, seed: int, name: str, stop: Stop) -> str:
        run = self.folder.run(arm, seed)
        if provenance.status(run) == "finished":
            return ""
        if stop.is_requested:
            return "not begun"
        console.notice(f"{name} · training")
        config = self.folder.config(arm, seed)
        write_text(config, yaml.safe_dump(self.study.settings(arm, seed), sort_keys=False, allow_unicode=True))
        goes_on = ["--resume"] if run.holds_a_run else []
        failure = self._call(["pretrain", str(config), "--run", str(run.path), *goes_on], run.path, stop)
        return failure or ("" if provenance.status(run) == "finished" else "stopped")

    def _judge(self, arm: Arm, seed: int, task: str, stop: Stop) -> str:
        path, run, terms = self.folder.scores(arm, seed), self.folder.run(arm, seed).path, self.study.terms
        known = read(path)
        missing = set(terms.probes) - {row["probe"] for row in known if row["task"] == task}
        if not missing:
            return ""
        if stop.is_requested:
            return f"not judged on {task}"
        console.notice(f"{arm.name}, seed {seed} · judging on {task}")
        words = ["evaluate", str(run), "--json", "--task", task, "--features", terms.features]
        words += [word for probe in sorted(missing) for word in ("--probe", probe)]
        words += ["--labels", terms.labels] if terms.labels else []
        output = path.with_suffix(".part")
        failure = self._call(words, run, stop, output)
        if not failure:
            found = json.loads(output.read_text(encoding="utf-8"))
            write_json(path, known + [{**row, "task": task} for row in found])  # by the name that the study knows
        output.unlink()
        return failure

    def _call(self, words: list[str], run: Path, stop: Stop, output: Path = Path(os.devnull)) -> str:
        """-> why it failed, or nothing. What it says goes to a file beside the run, what it prints to `output`."""
        log = run.with_name(f"{run.name}.log")
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as said, output.open("wb") as printed:
            said_before = said.tell()
            imports = [word for file in self.study.terms.base.get("imports") or () for word in ("--import", file)]
            command = [sys.executable, "-m", "openjepa", *words, *imports]
            child = subprocess.Popen(command, stdout=printed, stderr=said, **self._surroundings())
            while _is_running(child):
                if stop.is_requested:
                    child.terminate()  # once: it saves, and a later call goes on
                    child.wait()
        if child.returncode == 0:
            return ""
        if child.returncode < 0 and stop.is_requested:
            return "stopped"
        if child.returncode < 0:
            return f"killed by signal {-child.returncode}, perhaps for want of memory; see {log}"
        text = log.read_bytes()[said_before:].decode(errors="replace")
        return f"{_last_words(text)} (exit code {child.returncode}, see {log})"

    def _surroundings(self) -> dict[str, Any]:
        environment = dict(os.environ)
        if self.jobs > 1:
            environment["OMP_NUM_THREADS"] = str(max((os.cpu_count() or 1) // self.jobs, 1))
        if os.name != "posix":
            return {"env": environment}
        # A group of its own: Ctrl-C reaches us, and we tell the child.
        return {"env": environment, "process_group": 0, "pass_fds": self.lock.files}


def _is_running(child: subprocess.Popen[bytes]) -> bool:
    """Waits a little."""
    with suppress(subprocess.TimeoutExpired):
        child.wait(1)
    return child.returncode is None


def _last_words(text: str) -> str:
    """The sentence that a command ends with, which may have several lines."""
    _, found, sentence = text.rpartition(SAID)
    return " ".join((sentence if found else text[-200:]).split()) or "failed without a word"
