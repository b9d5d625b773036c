"""Small pretraining runs in processes of their own, for tests that kill them. Also a program: see main()."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

STEPS = 10
SETTINGS = [
    "data.image_size=32",
    "model.name=vit-nano/8",
    "method.target_centering=whiten",
    "optim.clip=1.0",
    "train.batch_size=8",
    f"train.steps={STEPS}",
    "train.checkpoint_every=3",
    "monitors.loss.every=1",
    "monitors.throughput=off",
]


def make_images(folder: Path, number: int = 24) -> Path:
    """PNG images of different sizes, so that decoding and cropping both have work to do."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for index in range(number):
        height, width = random.integers(30, 60, size=2)
        Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(folder / f"{index:03d}.png")
    return folder


def make_labelled(folder: Path) -> Path:
    """Two classes of noise, for training and for validation."""
    for split in ("train", "val"):
        for name in ("cats", "dogs"):
            make_images(folder / split / name, number=8)
    return folder


def words(data: object, run: Path, *extra: str) -> list[str]:
    """The command line of a run."""
    settings = [word for setting in [*SETTINGS, *extra] for word in ("--set", setting)]
    return ["pretrain", "--recipe", "paper", "--data", str(data), "--run", str(run), *settings]


def command(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """`openjepa …` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "openjepa", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
    )


def killed(kill_at: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The same, killed with SIGKILL from inside at a chosen moment."""
    return subprocess.run(
        [sys.executable, str(Path(__file__)), kill_at, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def main() -> None:
    """runner.py MOMENT ARGUMENTS: `step:4` before step 4, `backward:4` before its weights move, `weights:6`, `state:6` and

    `rename:6` while the checkpoint of step 6 is being written, `finish:10` before the final weights are.
    """
    kind, _, number = sys.argv[1].partition(":")
    sys.argv = ["openjepa", *sys.argv[2:]]
    _set_trap(kind, int(number))
    from openjepa.cli.main import main as run

    run()


def _set_trap(kind: str, number: int) -> None:
    from openjepa.runs import checkpoint
    from openjepa.training import loop, run

    traps = {
        "step": (loop, "_step", lambda parts, settings, index, *_: index == number),
        "backward": (loop, "_clip", lambda parts, settings, index: index == number),
        "weights": (checkpoint.torch, "save", lambda state, *_: state["step"] == number),
        "state": (checkpoint, "_write_manifest", lambda folder, step: step == number),
        "finish": (run.TrainingRun, "write_weights", lambda training, step: step == number),
        "rename": (checkpoint.os, "replace", lambda old, new: str(new).endswith(f"step-{number:08d}")),
    }
    module, name, is_the_moment = traps[kind]
    original = getattr(module, name)

    def trapped(*arguments, **options):
        if is_the_moment(*arguments):
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **options)

    setattr(module, name, trapped)


if __name__ == "__main__":
    main()
