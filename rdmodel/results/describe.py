"""Describe runs: their configuration as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rdmodel.common.late_dataclass import field_values
from rdmodel.common.text import size_text
from rdmodel.gpu.config import GPU
from rdmodel.trace import Trace


def describe(trace: Trace, gpu: GPU, options: Any, seed: int) -> dict[str, Any]:
    """Return the complete configuration of a run: enough to repeat it."""
    return {"gpu": gpu.to_dict(), "options": field_values(options), "seed": seed, "trace": describe_trace(trace)}


def describe_l1(gpu: Mapping[str, Any]) -> dict[str, Any]:
    """Return the L1 that a run had, from the GPU in its configuration: `size`, `carveout` and `sector`, in bytes.

    `carveout` is the shared memory that the driver chooses for the launch; None if the L1 has memory of its own.
    """
    l1 = gpu["l1"]
    return {"size": l1["size"], "carveout": l1.get("carveout"), "sector": l1.get("sector", l1["line"])}


def describe_memory(gpu: Mapping[str, Any]) -> str:
    """Return the division of an SM's memory in a run, from the GPU in its configuration; "" if the L1 has its own."""
    l1 = gpu["l1"]
    if not l1.get("unified"):
        return ""
    shared = size_text(l1["carveout"]) if l1["carveout"] else "none"
    return f"{size_text(l1['size'])}: {size_text(l1['unified'])} per SM, of which shared memory has {shared}"


def describe_trace(trace: Trace) -> dict[str, Any]:
    """Return the launch of a trace and, if they are known, the parameters of its kernel.

    The launch of a recording has its number: ``launch``.
    """
    launch = trace.launch
    return {
        "kernel": launch.kernel,
        **({} if trace.number is None else {"launch": trace.number}),
        "grid": list(launch.grid),
        "block": list(launch.block),
        "registers": launch.registers,
        "shared_memory": launch.shared_memory,
        "params": dict(trace.params),
    }
