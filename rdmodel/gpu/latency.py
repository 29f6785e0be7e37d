"""How to describe the simulated machine to the model: the options that it has a word for."""

from __future__ import annotations

import math

from rdmodel.gpu.config import GPU

READ_BYTES = 8
HEADER_BYTES = 8
"""Of a message through the crossbar: a request to read, and what stands before a line (docs/machine.md, S5)."""


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
