"""Randomness as a function: (seed, purpose, index) -> generator. There is no state to save."""

import hashlib

import torch


def number(seed: int, purpose: str, index: int = 0) -> int:
    """A 63-bit number that is unrelated for any two different (seed, purpose, index)."""
    digest = hashlib.blake2b(f"{seed}/{purpose}/{index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def generator(seed: int, purpose: str, index: int = 0) -> torch.Generator:
    """A CPU generator for one purpose: draws are made on the CPU so that they are the same for every device."""
    return torch.Generator().manual_seed(number(seed, purpose, index))
