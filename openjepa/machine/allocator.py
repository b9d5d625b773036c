"""Memory that stays: glibc gives large blocks back to the system at once, and every fresh page must be cleared again.

A training step allocates and frees the same gigabytes again and again. With glibc's defaults a step of vit-tiny/4, batch
128, meets 256,000 page faults, a tenth of its processor time in the kernel (docs/log.md, 2026-11-16). Told to keep freed memory and
not to map large blocks one by one, it meets almost none. The price: the process keeps its largest size until it ends.
"""

import ctypes
import platform
from typing import Literal

Allocator = Literal["tuned", "system"]
# The names and numbers of malloc.h.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
NEVER = 2**31 - 1
PAD = 64 * 2**20  # ask the system for this much more each time, so that it is asked seldom


def tune(wanted: Allocator) -> bool:
    """Tells glibc to keep freed memory, once and for all for this process; True if it was there to be told."""
    if wanted == "system" or not is_glibc():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    answers = [mallopt(M_TRIM_THRESHOLD, NEVER), mallopt(M_TOP_PAD, PAD), mallopt(M_MMAP_MAX, 0)]
    return all(answer == 1 for answer in answers)


def is_glibc() -> bool:
    """musl, macOS and Windows have allocators of their own, which know no mallopt."""
    return platform.libc_ver()[0] == "glibc"
