"""Trace a chase of pointers, as gpu-latency of gpu-benches has it: one thread loads lines in a random circle."""

from __future__ import annotations

import numpy as np

from rdmodel.trace import Columns, Launch, Op, Space, Trace

LINE = 128
ROUNDS = 100
"""Rounds of a chase: a measured one has 100,000 loads, which are about as many rounds where the L1 is full."""

ORDERS = 5
"""Random orders of which the median is taken: near the capacity, some have twice the misses of others."""


def chase(lines: int, order: int) -> Trace:
    """Return a chase through so many lines in one of the random orders; a load waits for the one before."""
    circle = np.random.default_rng(order).permutation(lines) * LINE
    loads = ROUNDS * lines
    columns = Columns(
        warp_start=np.array([0, loads]),
        pc=np.zeros(loads, np.int32),
        op=np.full(loads, Op.LOAD, np.uint8),
        space=np.full(loads, Space.GLOBAL, np.uint8),
        size=np.full(loads, 8, np.uint8),
        gap=np.zeros(loads, np.int32),
        needs=np.ones(loads, np.uint64),
        loop_exit=np.zeros(loads, np.bool_),
        mask=np.ones(loads, np.uint32),
        address_start=np.arange(loads + 1),
        addresses=np.tile(circle, ROUNDS),
    )
    return Trace(Launch(kernel="chase", grid=(1, 1, 1), block=(1, 1, 1)), columns)
