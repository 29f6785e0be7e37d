"""Trace small kernel functions, and list the instructions of a warp."""

from __future__ import annotations

import numpy as np

from rdmodel.trace import Op
from tracegen.simt.kernel_trace import trace


def run(function, *, grid=1, block=32, arrays=None, **params):
    """Trace a kernel with one array A of 4096 elements unless told otherwise."""
    return trace(function, grid=grid, block=block, arrays=arrays or {"A": 4096}, **params)


def rows(t, warp=0):
    """Return (op, needs, first address, mask) of the instructions of one warp."""
    c = t.columns
    c.check()
    lo, hi = c.warp_start[warp], c.warp_start[warp + 1]
    return [
        (Op(c.op[i]), int(c.needs[i]), int(c.addresses[c.address_start[i]]) if c.op[i] != Op.BARRIER else 0)
        for i in range(lo, hi)
    ]


def needs(t, warp=0):
    return [need for _, need, _ in rows(t, warp)]


def same_columns(one, other, *, but=()):
    for name in one.columns.__dataclass_fields__:
        if name not in but:
            np.testing.assert_array_equal(getattr(one.columns, name), getattr(other.columns, name), err_msg=name)


def simple(k, A):
    k.load(A, k.x)
    k.store(A, k.x)
