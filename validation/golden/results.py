"""Compute digests of predictions and simulations, over all counters and none of the times."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rdmodel as rd
import tracegen
from tracegen.kernel_library.suites import SUITES

FOLDER = Path(__file__).parent
RECORD = FOLDER / "digests.csv"

GPU = "gtx470-16k"
SUITE = "polybench"
"""The 30 kernels of PolyBench/GPU, cut to sizes that the simulator gets through in seconds."""

MODEL_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "hardware": {},
    "paper": {"definition": "paper"},
    "l2": {"l2": True, "model_sms": "all"},
}
"""The two definitions of the model, and all SMs with the L2 that they share."""

ENGINES = (*MODEL_OPTIONS, "simulator")

NOT_COUNTERS = ("seconds", "trace_seconds", "config")


@dataclass(frozen=True, slots=True)
class Digest:
    """The SHA-256 of all counters of one kernel under one engine, with two counters that a person can read."""

    kernel: str
    engine: str
    loads: int
    misses: int
    sha256: str


def kernels() -> Mapping[str, Mapping[str, Any]]:
    """Return the kernels in order, with their sizes."""
    sizes: Mapping[str, Mapping[str, Any]] = SUITES[SUITE]
    return sizes


def run(task: tuple[str, str]) -> Digest:
    """Return the digest of (kernel, engine)."""
    kernel, engine = task
    trace = tracegen.kernel(kernel, **kernels()[kernel])
    result: Any
    if engine == "simulator":
        result = rd.simulate(trace, gpu=GPU, seed=0)
        loads = result.loads
    else:
        result = rd.predict(trace, gpu=GPU, seed=0, **MODEL_OPTIONS[engine])
        loads = result.transactions
    return Digest(kernel, engine, int(loads), int(result.misses.total), hashlib.sha256(text(result)).hexdigest())


def text(value: Any) -> bytes:
    """Return a value as bytes that differ whenever a counter does: fields by name, floats to the last bit."""
    if is_dataclass(value):
        counters = [field.name for field in fields(value) if field.name not in NOT_COUNTERS]
        return b"{" + b",".join(name.encode() + b":" + text(getattr(value, name)) for name in counters) + b"}"
    if isinstance(value, Mapping):
        return b"{" + b",".join(text(key) + b":" + text(value[key]) for key in sorted(value)) + b"}"
    if isinstance(value, tuple | list):
        return b"[" + b",".join(map(text, value)) + b"]"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}".encode() + value.tobytes()
    return repr(value).encode()
