"""Compute the latencies of the simulated machine when it is idle (docs/machine.md)."""

from __future__ import annotations

import math

from rdmodel.gpu.config import GPU

READ_BYTES = 8
"""Bytes of a read request in the crossbar (docs/machine.md, S5)."""

HEADER_BYTES = 8
"""Bytes before the line in a crossbar message that carries one: a write, or the response to a read."""


def unloaded_latency(gpu: GPU) -> int:
    """Return the SM cycles from an L1 miss to its data if the machine is idle and the L2 has the line.

    One cycle more than in the simulator if a message takes whole SM cycles to cross: nothing has to be rounded up then.
    """
    flits = count_flits(READ_BYTES, gpu) + count_flits(HEADER_BYTES + gpu.l1.line, gpu)
    crossbar = (2 * gpu.crossbar.latency + flits) * gpu.clock / gpu.crossbar.clock
    return gpu.l2.latency + math.ceil(crossbar) + 1


def dram_latency(gpu: GPU) -> int:
    """Return the additional SM cycles of a miss in the L2 whose DRAM bank has another row open."""
    dram = gpu.dram
    cycles = dram.trp + dram.trcd + dram.tcl + -(-gpu.l1.line // dram.width)
    return math.ceil(cycles * gpu.clock / dram.clock) + dram.latency


def count_flits(size: int, gpu: GPU) -> int:
    """Return the number of flits of a message of `size` bytes: the crossbar cycles for which it occupies a port."""
    return -(-size // gpu.crossbar.width)
