"""How many processes, and how many threads in each, may share one machine. Pure rules; training/arrange.py measures."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

MAX_CANDIDATES = 8
MIN_IMAGES = 4  # of each process in a round; with fewer, processes mostly exchange gradients
RULE_IMAGES = 8  # the same without a measurement, …
RULE_PROCESSES = 8  # … which also stops here: every process holds its own weights and optimiser state
CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Arrangement:
    processes: int
    threads: int  # of each process

    def __str__(self) -> str:
        """
        >>> from openjepa.machine.arrangement import Arrangement
        >>> str(Arrangement(2, 1)), str(Arrangement(1, 4))
        ('2 processes × 1 thread', '1 process × 4 threads')
        """
        processes = "1 process" if self.processes == 1 else f"{self.processes} processes"
        return f"{processes} × {self.threads} thread{'' if self.threads == 1 else 's'}"


def candidates(cores: int, batch_size: int) -> list[Arrangement]:
    """From one process with all cores towards one process for each core; `batch_size` is one accumulation round.

    >>> from openjepa.machine.arrangement import candidates
    >>> [(each.processes, each.threads) for each in candidates(6, 128)]
    [(1, 6), (2, 3), (4, 1)]
    """
    limits = [cores >> halvings for halvings in range(cores.bit_length())]
    counts = {1, *(_largest_share(limit, batch_size) for limit in limits)}
    return [Arrangement(count, cores // count) for count in sorted(counts)][:MAX_CANDIDATES]


def rule(cores: int, batch_size: int) -> Arrangement:
    """Without a measurement: many processes with few threads, as long as each of them has enough images."""
    options = [each for each in candidates(cores, batch_size) if each.processes <= RULE_PROCESSES]
    return [each for each in options if each.processes == 1 or batch_size // each.processes >= RULE_IMAGES][-1]


def on_gpus(gpus: int, cores: int, batch_size: int) -> Arrangement:
    """One process per GPU, or on fewer GPUs if the batch cannot be shared equally by all of them."""
    processes = max(count for count in range(1, gpus + 1) if batch_size % count == 0)
    return Arrangement(processes, max(cores // processes, 1))


def _largest_share(limit: int, batch_size: int) -> int:
    """The largest number of processes up to `limit` that share the batch equally."""
    counts = range(1, limit + 1)
    return max(
        count for count in counts if count == 1 or (batch_size % count == 0 and batch_size // count >= MIN_IMAGES)
    )


def usable_cores() -> int:
    """The cores that this process may use: affinity, the container's limit, and OMP_NUM_THREADS if the user has set it."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    words = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]  # "4,2" is for nested loops
    limits = [cores, _container_limit(CGROUP), int(words) if words.isdecimal() else None]
    return max(min(limit for limit in limits if limit is not None), 1)


def _container_limit(root: Path) -> int | None:
    """Whole cores of a container's quota: cgroup v2, then v1."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota, period = ((root / "cpu" / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        except OSError:
            return None
    return max(int(quota) // int(period), 1) if quota.isdecimal() else None  # "max" and -1: no limit
