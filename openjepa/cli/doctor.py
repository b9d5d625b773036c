"""What works on this machine. Precisions are probed in a subprocess, because on some machines trying kills the process."""

import importlib.util
import os
from dataclasses import asdict
from typing import Any

import torch

from openjepa.machine import device
from openjepa.runs import provenance

OPTIONAL = ("transformers", "sklearn", "torchvision", "timm")


def examine() -> dict[str, Any]:
    chosen = device.choose()
    return {
        "versions": {name: provenance.version(name) for name in provenance.PACKAGES},
        "machine": asdict(provenance.machine()),
        "memory": {"free GiB": round(_free_gib(), 1)},
        "device": str(chosen),
        "precision": {
            "float32": "works",
            "bfloat16": _words(device.probe_bfloat16(chosen.type)),
            "bfloat16 without AMX": _words(device.probe_bfloat16(chosen.type, safe_isa=True)),
            "auto chooses": device.resolve_precision("auto", chosen),
        },
        "distributed": {
            "gloo": torch.distributed.is_gloo_available(),
            "nccl": torch.distributed.is_nccl_available(),
        },
        # found, not imported: a broken torchvision takes others down with it
        "optional packages": {name: importlib.util.find_spec(name) is not None for name in OPTIONAL},
    }


def _words(problem: str | None) -> str:
    return "works" if problem is None else f"does not work: {problem}"


def _free_gib() -> float:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (ValueError, OSError, AttributeError):
        return float("nan")
