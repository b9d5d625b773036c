"""`train.processes`: which arrangement of processes and threads a run gets. See docs/decisions/0010-processes.md.

Long runs measure the candidates, short ones follow a rule, and runs that are over in a minute stay in this process.
"""

from pathlib import Path

import torch
from torch.multiprocessing import ProcessRaisedException

from openjepa.core import registry
from openjepa.core.config import DEFAULT_EPOCHS, Config
from openjepa.core.errors import BadInput, OpenJepaError
from openjepa.data.batches.order import Split
from openjepa.data.open import open_source
from openjepa.machine import arrangement, console, launch
from openjepa.machine.arrangement import Arrangement
from openjepa.models import resnet, sizes
from openjepa.runs import provenance
from openjepa.runs.directory import RunFolder
from openjepa.training.processes import trial

TRIAL_SECONDS = 8.0  # of one candidate, including the start of its processes …
TRIAL_SHARE = 0.05  # … and all of them take at most this share of a time budget
TRIAL_LIMIT = 40.0  # seconds after which we give up on a candidate
TRIAL_PATCHES = 8192  # in a step of a trial: with huge models, a whole batch takes minutes
MIN_MINUTES = 1.0  # shorter runs do not repay the start of processes
PATCHES_A_MINUTE = 1e6  # vit-micro on two cores (docs/log.md); where a run has no time budget, to tell long from short
MAIN = "__main__"  # a part that a script or notebook defines itself cannot be imported by another process
RESNET_PATCH = 16  # pixels; a ResNet has no patches


def choose(config: Config, before: RunFolder | None) -> Arrangement:
    """For a run that starts now in this process, or resumes in the folder `before`."""
    cores, gpus = arrangement.usable_cores(), torch.cuda.device_count()
    alone = Arrangement(1, torch.get_num_threads())
    if not launch.is_possible():
        return alone
    if config.train.processes != "auto":
        return _given(config, config.train.processes, cores, gpus)
    if MAIN in modules(config):
        return alone
    if before is not None:
        return _as_before(before, alone, cores, gpus)
    if (gpus or cores) == 1 or _minutes(config) < MIN_MINUTES:
        return alone
    batch_size = config.train.batch_size // config.train.accumulate
    if gpus:
        return arrangement.on_gpus(gpus, cores, batch_size)
    candidates = arrangement.candidates(cores, batch_size)
    if len(candidates) > 1 and len(candidates) * TRIAL_SECONDS <= TRIAL_SHARE * 60 * _minutes(config):
        return _fastest(config, candidates)
    return arrangement.rule(cores, batch_size)


def modules(config: Config) -> list[str]:
    """What another process must import before it can build the parts of this config."""
    return sorted({*registry.modules_of_others(), *(Path(file).stem for file in config.imports)})


def _given(config: Config, processes: int, cores: int, gpus: int) -> Arrangement:
    if gpus and processes > gpus:
        raise BadInput(
            f"train.processes is {processes}, but this machine has {gpus} GPUs; use at most one process per GPU"
        )
    if processes > 1 and MAIN in modules(config):
        raise BadInput(
            f"train.processes is {processes}, but other processes cannot import parts that a script defines itself; move "
            "them to a file of their own and import it, or use train.processes=1"
        )
    Split(batch_size=config.train.batch_size, accumulate=config.train.accumulate, world_size=processes)
    return Arrangement(processes, max(cores // processes, 1))


def _as_before(folder: RunFolder, alone: Arrangement, cores: int, gpus: int) -> Arrangement:
    """The arrangement that the run had, so that it resumes bit for bit; one process if this machine is smaller."""
    past = provenance.read(folder)
    if past.processes == 1 or past.processes > (gpus or cores):
        return alone
    return Arrangement(past.processes, max(cores // past.processes, 1))


def _minutes(config: Config) -> float:
    """The time budget, or a rough estimate from the number of images that the run will see."""
    train = config.train
    if train.minutes is not None:
        return train.minutes
    if train.steps is not None:
        return train.steps * train.batch_size * _patches(config) / PATCHES_A_MINUTE
    epochs = train.epochs if train.epochs is not None else DEFAULT_EPOCHS
    num_images = len(open_source(config.data.source, image_size=config.data.height_width))
    return epochs * num_images * _patches(config) / PATCHES_A_MINUTE


def _patches(config: Config) -> int:
    """Of one image."""
    is_resnet = resnet.parse(config.model.name) is not None
    side = RESNET_PATCH if is_resnet else sizes.parse(config.model.name)[1]
    height, width = config.data.height_width
    return max((height // side) * (width // side), 1)


def _fastest(config: Config, candidates: list[Arrangement]) -> Arrangement:
    console.notice(f"choosing processes and threads: timing a few steps of {len(candidates)} arrangements …")
    speeds = {each: _speed(config, each) for each in candidates}
    best = max(speeds, key=lambda each: speeds[each])
    if speeds[best] == 0:
        best = candidates[0]
    words = [f"{each}: {speed:.0f} images/s" if speed else f"{each}: no result" for each, speed in speeds.items()]
    console.notice(f"{' · '.join(words)}; this run uses {best}")
    return best


def _speed(config: Config, each: Arrangement) -> float:
    """Images per second; 0 if it does not work here or takes too long."""
    shared = trial_config(config, each.processes)
    try:
        return launch.run(trial.images_per_second, (shared,), each, modules=modules(config), seconds=TRIAL_LIMIT)
    except (OpenJepaError, ProcessRaisedException):
        return 0.0


def trial_config(config: Config, processes: int) -> Config:
    """One accumulation round, of a size that a trial can afford and that the processes can share."""
    size = config.train.batch_size // config.train.accumulate
    limit = max(TRIAL_PATCHES // _patches(config) // processes, 1) * processes
    train = config.train.model_copy(update={"batch_size": min(size, limit), "accumulate": 1})
    return config.model_copy(update={"train": train})
