"""`openjepa doctor`: what works on this machine."""

import importlib.util
import os
from typing import Any

from openjepa.cli import tables
from openjepa.cli.options import AsJson

OPTIONAL = ("transformers", "sklearn", "torchvision", "timm")


def doctor(*, json: AsJson = False) -> None:
    """Show what works on this machine: device, precisions, threads, versions.

    Example: openjepa doctor
    """
    tables.mapping(examine(), as_json=json)


def examine() -> dict[str, Any]:
    """Precisions are probed in a subprocess, because on some machines an unsupported one kills the process."""
    import torch

    from openjepa.machine import device
    from openjepa.runs import provenance, records

    chosen = device.choose()
    return {
        "versions": {name: provenance.version(name) for name in provenance.PACKAGES},
        "machine": records.dump(provenance.machine()),
        "memory": {"free GiB": round(_free_gib(), 1)},
        "device": str(chosen),
        "precision": {
            "float32": "works",
            "bfloat16": _status(device.probe_bfloat16(chosen.type)),
            "bfloat16 without AMX": _status(device.probe_bfloat16(chosen.type, safe_isa=True)),
            "auto chooses": device.resolve_precision("auto", chosen),
        },
        "distributed": {
            "gloo": torch.distributed.is_gloo_available(),
            "nccl": torch.distributed.is_nccl_available(),
        },
        # searched for, not imported: a broken torchvision breaks others when imported
        "optional packages": {name: importlib.util.find_spec(name) is not None for name in OPTIONAL},
    }


def _status(problem: str | None) -> str:
    return "works" if problem is None else f"does not work: {problem}"


def _free_gib() -> float:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (ValueError, OSError, AttributeError):
        return float("nan")
