"""Makes glibc reuse freed memory. By default it returns large blocks to the system, which must clear every new page.

A training step allocates and frees the same gigabytes again and again. With glibc's defaults a step of vit-tiny/4, batch
128, has 256,000 page faults and spends a tenth of its processor time in the kernel (docs/log.md, 2026-11-16). With these
settings it has almost none. The price: the process never shrinks.
"""

import ctypes
import platform
from typing import Literal

Allocator = Literal["tuned", "system"]
# The names and numbers of malloc.h.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
NEVER = 2**31 - 1
PAD = 64 * 2**20  # request this much more from the system each time, so that requests are rare


def tune(allocator: Allocator) -> bool:
    """Makes glibc hold on to freed memory for the rest of this process; False if the C library is not glibc."""
    if allocator == "system" or not is_glibc():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    results = [mallopt(M_TRIM_THRESHOLD, NEVER), mallopt(M_TOP_PAD, PAD), mallopt(M_MMAP_MAX, 0)]
    return all(result == 1 for result in results)


def is_glibc() -> bool:
    """musl, macOS and Windows have other allocators, without mallopt."""
    return platform.libc_ver()[0] == "glibc"
