"""Functions for processes that tests start, which import them from here."""

import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist

from openjepa.core.errors import BadInput
from openjepa.machine import distributed


def report(word: str) -> dict[str, object]:
    distributed.start(torch.device("cpu"))
    names = ("LOCAL_RANK", "WORLD_SIZE", "OMP_NUM_THREADS")
    seen = distributed.gather([os.environ[name] for name in names])
    result = {
        "word": word,
        "rank": dist.get_rank(),
        "threads": torch.get_num_threads(),
        "seen": seen,
        "in": os.getcwd(),
    }
    distributed.stop()
    return result


def fail_on_rank_1(folder: Path, how: str) -> None:
    (folder / os.environ["RANK"]).write_text(str(os.getpid()))
    distributed.start(torch.device("cpu"))
    distributed.barrier()
    if distributed.is_main():
        time.sleep(60)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise BadInput("the second process has a reason")
