"""Durations in the unit people think in: "10 epochs", "5%", 500 (steps). Converted to steps once, in one place."""

import re
from dataclasses import dataclass
from typing import Literal

from openjepa.core.errors import BadInput

Unit = Literal["steps", "epochs", "percent"]
_PATTERN = re.compile(r"\s*(\d+(?:\.\d*)?(?:e-?\d+)?|\.\d+)\s*(steps?|epochs?|%)?\s*")


@dataclass(frozen=True)
class Duration:
    amount: float
    unit: Unit = "steps"

    @classmethod
    def parse(cls, text: "str | int | float | Duration") -> "Duration":
        if isinstance(text, Duration):
            return text
        match = _PATTERN.fullmatch(str(text))
        if match is None:
            raise BadInput(f'"{text}" is not a duration; write steps as 500, or "10 epochs", or "5%"')
        unit: Unit = "percent" if match[2] == "%" else "epochs" if (match[2] or "").startswith("epoch") else "steps"
        return cls(float(match[1]), unit)

    def steps(self, *, steps_per_epoch: int, total: int) -> int:
        """Rounded to whole steps; a duration above zero is at least one step."""
        scale = {"steps": 1.0, "epochs": float(steps_per_epoch), "percent": total / 100}[self.unit]
        steps = round(self.amount * scale)
        return max(steps, 1) if self.amount > 0 else 0

    def __str__(self) -> str:
        number = str(int(self.amount)) if self.amount == int(self.amount) else repr(self.amount)
        return {"steps": number, "epochs": f"{number} epochs", "percent": f"{number}%"}[self.unit]
