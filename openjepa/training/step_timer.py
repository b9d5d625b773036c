"""What the last steps took. Decoding processes hand over several batches and then stall, so one step tells little."""

from collections import deque


class Pace:
    """Seconds of recent steps, and those of them spent waiting for data."""

    def __init__(self, memory: int) -> None:
        self._steps: deque[tuple[float, float]] = deque(maxlen=memory)

    def add(self, seconds: float, waiting: float) -> None:
        self._steps.append((seconds, waiting))

    def over(self, number: int) -> tuple[float, float]:
        """Mean seconds, and mean seconds of waiting, of the last `number` steps, or of as many as there were."""
        recent = list(self._steps)[-number:]
        seconds, waiting = (sum(column) / len(recent) for column in zip(*recent, strict=True))
        return seconds, waiting
