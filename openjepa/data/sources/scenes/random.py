"""Random numbers of `scenes`, as a pure function of (seed, purpose, number of the scene), for many scenes at once.

A generator draws one after the other; a hash of a counter gives any number of any scene, in any order.
"""

import numpy as np

from openjepa.core import seeding
from openjepa.data.sources.scenes.world import Floats, Words


def words(seed: int, purpose: str, numbers: Words, num: int, attempt: int = 0) -> Words:
    """[S] -> [S, num]: the splitmix64 sequence (Steele, Lea & Flood 2014) that starts at a hash of each number."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    start = _mix(numbers * golden + np.uint64(seeding.number(seed, f"scenes/{purpose}", attempt)))
    return _mix(start[:, None] + np.arange(1, num + 1, dtype=np.uint64) * golden)


def _mix(x: Words) -> Words:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def draw(seed: int, purpose: str, numbers: Words, num: int, attempt: int = 0) -> Floats:
    """[S] -> [S, num] uniform in [0, 1)."""
    # 24 bits are what a float32 holds exactly
    return (words(seed, purpose, numbers, num, attempt) >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)
