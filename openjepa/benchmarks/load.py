"""Images per second of a run's own arrangement of processes, alone and beside one busy core, in turns within one run."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from openjepa.core import config as configs
from openjepa.core.config import Config
from openjepa.machine import device as devices
from openjepa.machine import distributed, launch
from openjepa.training import setup
from openjepa.training.processes import arrange
from openjepa.training.processes.trial import Trial

WARMUP = 2  # steps
SECONDS = 2.0  # of one turn on a quiet machine
START = 0.5  # seconds until the busy process computes
# It ends by itself if its parent is killed.
SPIN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"


def beside_load(words: list[str], *, num_rounds: int) -> dict[str, Any]:
    """A row: the arrangement, its speed in both situations, and the share of the speed that is left."""
    config = setup.resolve(configs.load({}, words))
    chosen = arrange.choose(config, None)
    config = arrange.trial_config(config, chosen.processes)
    if chosen.processes == 1:
        quiet, busy = _both(config, num_rounds)
    else:
        quiet, busy = launch.run(_both, (config, num_rounds), chosen)
    return {
        "model": config.model.name,
        "image size": config.data.image_size,
        "batch size": config.train.batch_size,
        "arrangement": str(chosen),
        "quiet, images/s": round(quiet, 1),
        "beside one busy core, images/s": round(busy, 1),
        "ratio": round(busy / quiet, 3),
    }


def _both(config: Config, num_rounds: int) -> tuple[float, float]:
    """Images per second, quiet and beside a busy core; every process of the group calls it."""
    device = devices.choose()
    distributed.start(device)
    try:
        trial = Trial(config, device)
        trial.run(WARMUP)
        steps = distributed.from_main(max(round(SECONDS / trial.run(1)), 1))
        turns = [(trial.run(steps), _busy(trial, steps)) for _ in range(num_rounds)]
    finally:
        distributed.stop()
    quiet, busy = (config.train.batch_size * steps / median(column) for column in zip(*turns, strict=True))
    return quiet, busy


def _busy(trial: Trial, steps: int) -> float:
    """Seconds; only rank 0 starts the busy process."""
    if not distributed.is_main():
        return trial.run(steps)
    with _busy_core():
        return trial.run(steps)


@contextmanager
def _busy_core() -> Iterator[None]:
    spinning = subprocess.Popen([sys.executable, "-c", SPIN], env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        time.sleep(START)
        yield
    finally:
        spinning.kill()
        spinning.wait()
