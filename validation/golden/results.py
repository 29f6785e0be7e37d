"""Compute digests of predictions and simulations, over all counters and none of the times."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rdmodel as rd
import tracegen
from rdmodel.results.counts import SmCounts
from rdmodel.results.simulation import SmSimulation
from tracegen.kernel_library.suites import SUITES

FOLDER = Path(__file__).parent
RECORD = FOLDER / "digests.csv"

GPU = "gtx470-16k"
SUITE = "polybench"
"""The 30 kernels of PolyBench/GPU, at sizes that take the simulator seconds."""

MODEL_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "hardware": {},
    "paper": {"definition": "paper"},
    "l2": {"l2": True, "model_sms": "all"},
}
"""Options of `predict` by engine: both definitions, and all SMs with their shared L2."""

ENGINES = (*MODEL_OPTIONS, "simulator")

NOT_COUNTERS = ("seconds", "trace_seconds", "config")
"""Fields of results that the digest leaves out."""

SECTOR_COUNTERS = (
    *("requests", "sectors", "tag_misses", "sector_misses", "stores"),
    *("bypassed_requests", "bypassed_transactions", "bypassed_sectors", "origins"),
)
"""Fields of predictions that it leaves out, too: they are younger than the record, or other counters imply them."""

SIMULATED_SECTOR_COUNTERS = ("lookups", "tag_misses", "sector_misses", "store_lookups")
"""The same of simulations."""

L2_SECTOR_COUNTERS = ("sector", "dram_read_sectors", "partition_sectors", "constant_sectors", "atomic_sectors")
"""The same of an L2 and of a DRAM."""


@dataclass(frozen=True, slots=True)
class Digest:
    """The SHA-256 of all counters of one kernel under one engine, with two counters that a person can read."""

    kernel: str
    engine: str
    loads: int
    misses: int
    sha256: str


def kernels() -> Mapping[str, Mapping[str, Any]]:
    """Return the sizes of the kernels by name, in the order of the record."""
    sizes: Mapping[str, Mapping[str, Any]] = SUITES[SUITE]
    return sizes


def run(task: tuple[str, str]) -> Digest:
    """Run the kernel of (kernel, engine) and return its digest."""
    kernel, engine = task
    trace = tracegen.kernel(kernel, **kernels()[kernel])
    result: Any
    if engine == "simulator":
        result = rd.simulate(trace, gpu=GPU, seed=0)
        loads = result.loads
    else:
        result = rd.predict(trace, gpu=GPU, seed=0, **MODEL_OPTIONS[engine])
        loads = result.transactions
    digest = hashlib.sha256(counter_bytes(result)).hexdigest()
    return Digest(kernel, engine, int(loads), int(result.misses.total), digest)


def counter_bytes(value: Any) -> bytes:
    """Return bytes that differ whenever a counter of `value` does: fields by name, floats to the last bit."""
    if is_dataclass(value):
        left_out: tuple[str, ...] = NOT_COUNTERS
        if isinstance(value, rd.Prediction | SmCounts):
            left_out += SECTOR_COUNTERS
        if isinstance(value, rd.Simulation | SmSimulation):
            left_out += SIMULATED_SECTOR_COUNTERS
        if isinstance(value, rd.L2Prediction | rd.L2Counts | rd.DramCounts):
            left_out += L2_SECTOR_COUNTERS
        counters = [field.name for field in fields(value) if field.name not in left_out]
        return b"{" + b",".join(name.encode() + b":" + counter_bytes(getattr(value, name)) for name in counters) + b"}"
    if isinstance(value, Mapping):
        return b"{" + b",".join(counter_bytes(key) + b":" + counter_bytes(value[key]) for key in sorted(value)) + b"}"
    if isinstance(value, tuple | list):
        return b"[" + b",".join(map(counter_bytes, value)) + b"]"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}".encode() + value.tobytes()
    return repr(value).encode()


def differences(results: Sequence[Digest], recorded: Sequence[Digest]) -> list[str]:
    """Return a line for each result that differs from the recorded one or has none."""
    before = {(digest.kernel, digest.engine): digest for digest in recorded}
    lines = []
    for digest in results:
        old = before.get((digest.kernel, digest.engine))
        if digest != old:
            was = "none" if old is None else f"{old.misses} of {old.loads}"
            lines.append(
                f"{digest.kernel}, {digest.engine}: {digest.misses} misses of {digest.loads} loads, recorded: {was}"
            )
    return lines
