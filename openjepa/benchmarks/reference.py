"""Our training step in turns with that of the published I-JEPA code, on the same shapes, in float32.

The published code runs in a process of its own: its modules never meet ours.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import IO, Any

import torch

from openjepa.benchmarks.step import NUM_DRAWS, StepBench
from openjepa.benchmarks.timer import seconds_of
from openjepa.core import config as configs
from openjepa.core.config import Config
from openjepa.core.errors import BadInput, OpenJepaError
from openjepa.machine import allocator
from openjepa.models import sizes
from openjepa.training import setup

FILES = ("src/models/vision_transformer.py", "src/masks/multiblock.py", "src/masks/utils.py", "src/utils/tensors.py")
WARMUP = 3  # steps
SMALL_GRID = 144  # patches; below, blocks have fewer than the 10 patches that the released configs demand, …
MIN_KEEP, SMALL_MIN_KEEP = 10, 4  # … and the published sampler would never end


def against(words: list[str], folder: Path, *, num_steps: int) -> dict[str, Any]:
    """A row: images per second of both, and how many times as fast ours is."""
    for file in FILES:
        if not (folder / file).is_file():
            raise BadInput(
                f"{folder} is not a checkout of the published I-JEPA code: {file} is missing; clone "
                "https://github.com/facebookresearch/ijepa and give its folder"
            )
    config = setup.resolve(configs.load({}, words))
    shape = shape_of(config)
    allocator.tune(config.train.allocator)
    bench = StepBench(config, torch.device("cpu"))
    with _published(folder, shape) as theirs:
        for index in range(WARMUP):
            bench.run(index)
            theirs.turn()
        turns = [(seconds_of(partial(bench.run, index % NUM_DRAWS)), *theirs.turn()) for index in range(num_steps)]
    ours, published, masks = (median(column) for column in zip(*turns, strict=True))
    return {
        "model": config.model.name,
        "image size": config.data.image_size,
        "batch size": config.train.batch_size,
        "precision": f"{bench.precision}, published float32",
        "threads": torch.get_num_threads(),
        "published, images/s": round(shape["batch_size"] / published, 1),
        "openjepa, images/s": round(shape["batch_size"] / ours, 1),
        "ratio": round(published / ours, 3),
        "ratio without the published masks": round((published - masks) / ours, 3),
    }


def shape_of(config: Config) -> dict[str, Any]:
    """What the published code needs to know to train the same networks with the same kind of masks."""
    masks, (height, width) = config.method.get("masks", {}), config.data.height_width
    if config.method["name"] != "ijepa" or masks["name"] != "multiblock" or height != width:
        raise BadInput(
            "--reference compares method ijepa with multiblock masks on square images; leave these settings out"
        )
    size, patch_size = sizes.parse(config.model.name)
    predictor = config.method["predictor"]
    return {
        "image_size": height,
        "patch_size": patch_size,
        "dim": size.dim,
        "depth": size.depth,
        "num_heads": size.num_heads,
        "predictor_width": predictor["width"],
        "predictor_depth": predictor["depth"],
        "batch_size": config.train.batch_size,
        "min_keep": MIN_KEEP if (height // patch_size) ** 2 >= SMALL_GRID else SMALL_MIN_KEEP,
        **{name: masks[name] for name in ("num_targets", "target_scale", "target_aspect", "context_scale")},
    }


@dataclass(frozen=True)
class _Published:
    """The process that runs the published code."""

    process: "subprocess.Popen[str]"
    errors: IO[str]  # a file: a pipe that nobody reads would fill up and block the process

    def turn(self) -> tuple[float, float]:
        """Seconds of one step and of its masks."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        step, masks = map(float, self.line().split())
        return step, masks

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            reason = (self.errors.read().strip().splitlines() or ["no message"])[-1]
            raise OpenJepaError(f"the published code failed: {reason}")
        return line


@contextmanager
def _published(folder: Path, shape: dict[str, Any]) -> Iterator[_Published]:
    command = [sys.executable, "-m", "openjepa.benchmarks.published", str(folder.absolute()), json.dumps(shape)]
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True)
        try:
            theirs = _Published(process, errors)
            theirs.line()  # "ready"
            yield theirs
        finally:
            process.kill()
            process.communicate()
