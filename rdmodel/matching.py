"""How to describe the simulated machine to the model: the options that it has a word for."""

from __future__ import annotations

import math
from typing import Any

from rdmodel.config import GPU, CoreSched
from rdmodel.options import Sched

SCHEDULERS: dict[CoreSched, Sched] = {"lrr": "lrr", "gto": "gto", "two-level": "lrr", "old": "oldest"}
"""The model's warp choice that comes nearest to each of the machine's schedulers."""

READ_BYTES = 8
HEADER_BYTES = 8
"""Of a message through the crossbar: a request to read, and what stands before a line (docs/machine.md, S5)."""


def matching_options(gpu: GPU, sched: CoreSched | None = None) -> dict[str, Any]:
    """Return the options of `predict` that choose among warps, stall and store as the machine does.

    `sched` is the machine's scheduler (None: the GPU's).
    """
    return {
        "sched": SCHEDULERS[sched or gpu.core.sched],
        "schedulers": gpu.core.schedulers,
        "stall": "head",
        "stores": "evict",
    }


def unloaded_latency(gpu: GPU) -> int:
    """Return the cycles from a miss to its data where nothing else is under way and the L2 has the line."""
    flits = flits_of(READ_BYTES, gpu) + flits_of(HEADER_BYTES + gpu.l1.line, gpu)
    crossbar = (2 * gpu.crossbar.latency + flits) * gpu.clock / gpu.crossbar.clock
    return gpu.l2.latency + math.ceil(crossbar) + 1


def dram_latency(gpu: GPU) -> int:
    """Return the cycles that a miss takes longer if the L2 has not got the line: of a bank with another row open."""
    dram = gpu.dram
    cycles = dram.trp + dram.trcd + dram.tcl + -(-gpu.l1.line // dram.width)
    return math.ceil(cycles * gpu.clock / dram.clock) + dram.latency


def flits_of(size: int, gpu: GPU) -> int:
    """Return the crossbar cycles for which a message of so many bytes occupies a port."""
    return -(-size // gpu.crossbar.width)
