"""Schedules as functions of progress in [0, 1]; they have no state to save. Shapes: I-JEPA's published settings."""

import math


def linear(progress: float, start: float, end: float) -> float:
    return start + (end - start) * progress


def cosine(progress: float, start: float, end: float) -> float:
    """Half a cosine from start to end."""
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * min(max(progress, 0.0), 1.0)))


def warmup_cosine(progress: float, *, warmup: float, start: float, peak: float, final: float) -> float:
    """Linear from start to peak during the first `warmup` share of progress, then cosine to final."""
    if progress < warmup:
        return linear(progress / warmup, start, peak)
    return cosine((progress - warmup) / (1 - warmup) if warmup < 1 else 1.0, peak, final)
