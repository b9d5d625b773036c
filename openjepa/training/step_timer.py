"""How long the last steps took. Decoding processes deliver several batches and then stall, so a single step says little."""

from collections import deque


class StepTimer:
    """Seconds of recent steps, and how many of them were spent waiting for data."""

    def __init__(self, memory: int) -> None:
        self._steps: deque[tuple[float, float]] = deque(maxlen=memory)

    def add(self, seconds: float, waiting: float) -> None:
        self._steps.append((seconds, waiting))

    def over(self, number: int) -> tuple[float, float]:
        """Mean seconds and mean waiting seconds of the last `number` steps, or of all steps if there were fewer."""
        recent = list(self._steps)[-number:]
        seconds, waiting = (sum(column) / len(recent) for column in zip(*recent, strict=True))
        return seconds, waiting
