"""Where to compute and in which precision. The only file that chooses a device."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import torch

from openjepa.core.errors import BadInput

try:
    import resource
except ImportError:  # Windows has none
    resource = None  # type: ignore[assignment]

Precision = Literal["auto", "float32", "bfloat16"]
# Some virtual machines advertise AMX and trap it: the first bfloat16 product kills the process. This setting avoids AMX; it
# only helps when it is set before the first oneDNN call of the process.
SAFE_ISA = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
PROBE_SECONDS = 120
_PROBE = """
import torch
device = "{device}"
layer = torch.nn.Linear(64, 64).to(device)
with torch.autocast(torch.device(device).type, torch.bfloat16):
    layer(torch.randn(64, 64, device=device)).sum().backward()
assert layer.weight.grad.isfinite().all()
"""
# Products of the shape that a small transformer has on a CPU thread, or large ones on a GPU, in turns; prints JSON.
_RACE = """
import json, time, torch
torch.set_num_threads(1)
device = "{device}"
rows, dim, wide = (1024, 192, 768) if device == "cpu" else (8192, 4096, 4096)
layer, x = torch.nn.Linear(dim, wide, device=device), torch.randn(rows, dim, device=device)
best = [float("inf"), float("inf")]
for repeat in range(24):
    for is_half in (False, True):
        began = time.perf_counter()
        with torch.autocast(device, torch.bfloat16, enabled=is_half):
            layer(x).float().sum().backward()
        if device == "cuda":
            torch.cuda.synchronize()
        best[is_half] = min(best[is_half], time.perf_counter() - began)
memory = torch.cuda.get_device_properties(0).total_memory / 2**30 if device == "cuda" else 0
print(json.dumps(dict(flops=4 * rows * dim * wide / best[0], gain=best[0] / best[1], gibibytes=memory)))
"""
WORKS = "OPENJEPA_BFLOAT16_WORKS"  # in the environment: what one process found out, its children need not try


def choose() -> torch.device:
    """This process's GPU if there is one, else the CPU."""
    if torch.cuda.is_available():
        index = int(os.environ.get("LOCAL_RANK", "0"))
        torch.cuda.set_device(index)
        return torch.device("cuda", index)
    return torch.device("cpu")


@lru_cache(maxsize=8)
def probe_bfloat16(device: str, safe_isa: bool = False) -> str | None:
    """None when bfloat16 training works, else why not. In a subprocess: on some machines it kills the process."""
    try:
        done = _run_alone(_PROBE.format(device=device), safe_isa)
    except subprocess.TimeoutExpired:
        return f"no result within {PROBE_SECONDS} s"
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"the process was killed by signal {-done.returncode}"
    return (done.stderr.strip().splitlines() or ["unknown error"])[-1]


@dataclass(frozen=True)
class Speed:
    flops: float  # float32 operations per second, of one thread or one GPU
    gain: float  # how many times as fast bfloat16 is; 0 where it does not work
    gibibytes: float  # of the GPU's memory


def measure(device: str) -> Speed:
    """In a subprocess: bfloat16 kills the process on some CPUs, and a process that starts others must not use the GPU."""
    try:
        done = _run_alone(_RACE.format(device=device))
        if done.returncode and device == "cpu":
            done = _run_alone(_RACE.format(device=device), safe_isa=True)
            os.environ.update(SAFE_ISA if done.returncode == 0 else {})
        if done.returncode == 0:
            return Speed(**json.loads(done.stdout))
        done = _run_alone(_RACE.format(device=device).replace("enabled=is_half", "enabled=False"))
        return replace(Speed(**json.loads(done.stdout)), gain=0.0)
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        return Speed(flops=1e10, gain=0.0, gibibytes=0.0)  # a slow machine: auto then chooses something small


def _run_alone(program: str, safe_isa: bool = False) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **(SAFE_ISA if safe_isa else {})}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):  # it is not a member of a process group
        environment.pop(name, None)
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PROBE_SECONDS)


def resolve_precision(request: Precision, device: torch.device) -> Literal["float32", "bfloat16"]:
    """`auto`: float32 on a CPU (where bfloat16 is seldom faster), bfloat16 on a GPU on which it works."""
    if request == "float32" or (request == "auto" and device.type == "cpu"):
        return "float32"
    if os.environ.get(WORKS) == device.type:
        return "bfloat16"
    problem = probe_bfloat16(device.type)
    if problem is None:
        os.environ[WORKS] = device.type
        return "bfloat16"
    if request == "auto":
        return "float32"
    if device.type == "cpu" and probe_bfloat16(device.type, safe_isa=True) is None:
        os.environ.update({**SAFE_ISA, WORKS: device.type})
        return "bfloat16"
    raise BadInput(f"bfloat16 does not work on this machine ({problem}); use --set train.precision=float32")


def autocast(precision: Literal["float32", "bfloat16"], device: torch.device) -> Any:
    """A context in which matrix products run in this precision."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bfloat16" else nullcontext()


def peak_memory(device: torch.device) -> int:
    """The peak MiB of this process, or on a GPU of its tensors; 0 on systems that do not report it."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() // 2**20
    if resource is None:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (2**20 if sys.platform == "darwin" else 2**10)
