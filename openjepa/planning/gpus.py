"""The GPUs of `openjepa plan`. Peaks are of dense matrix products, from data sheets; memory is what the driver reports.

Prices are rough assumptions about clouds in 2025; --price replaces them. float32 is without TF32, which torch leaves off by
default. t4 and v100-32 have fast float16 but no bfloat16 units; openjepa does not train in float16, so they get their
float32 peak.
"""

from dataclasses import dataclass
from typing import Literal

from openjepa.core.errors import BadInput
from openjepa.core.registry import did_you_mean


@dataclass(frozen=True)
class Gpu:
    name: str
    bfloat16: float | None  # TFLOP/s; None: not supported
    float32: float  # TFLOP/s
    memory: float  # GiB
    price: float  # USD per hour, assumed

    def peak(self, precision: Literal["float32", "bfloat16"]) -> float:
        """FLOP/s."""
        rate = self.bfloat16 if precision == "bfloat16" else self.float32
        assert rate is not None
        return 1e12 * rate

    def precision(self, setting: Literal["auto", "float32", "bfloat16"]) -> Literal["float32", "bfloat16"]:
        """The precision that a run with this setting uses."""
        if setting == "bfloat16" and self.bfloat16 is None:
            raise BadInput(f"{self.name} has no bfloat16 units; use --set train.precision=float32 or another --gpu")
        return "float32" if setting == "float32" or self.bfloat16 is None else "bfloat16"


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("a100-40", bfloat16=312, float32=19.5, memory=40, price=1.30),
        Gpu("a100-80", bfloat16=312, float32=19.5, memory=80, price=1.80),
        Gpu("h100-80", bfloat16=989, float32=67, memory=79.6, price=3.00),  # SXM; the PCIe card has 756
        Gpu("l4", bfloat16=121, float32=30.3, memory=22.5, price=0.70),
        Gpu("rtx4090", bfloat16=165, float32=82.6, memory=24, price=0.45),
        Gpu("t4", bfloat16=None, float32=8.1, memory=15, price=0.35),
        Gpu("v100-32", bfloat16=None, float32=15.7, memory=32, price=0.90),
    )
}


def find(name: str) -> Gpu:
    if name not in GPUS:
        raise BadInput(f'unknown GPU "{name}"{did_you_mean(name, GPUS)}')
    return GPUS[name]
