"""Build traces of a few one-thread blocks."""

from __future__ import annotations

import numpy as np

from rdmodel.trace import Columns, Launch, Trace


def small(value=0, blocks=3):
    """Return a trace of one-thread blocks that load one byte at address `value`."""
    n = blocks
    columns = Columns(
        warp_start=np.arange(n + 1),
        pc=np.zeros(n),
        op=np.zeros(n),
        space=np.zeros(n),
        size=np.ones(n),
        gap=np.zeros(n),
        needs=np.zeros(n, np.uint64),
        loop_exit=np.zeros(n),
        mask=np.ones(n),
        address_start=np.arange(n + 1),
        addresses=np.full(n, value),
    )
    return Trace(Launch(kernel="small", grid=(blocks, 1, 1), block=(1, 1, 1)), columns)
