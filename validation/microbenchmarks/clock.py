"""Time launches of loads on a hidden machine: the only access of a micro-benchmark to the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import rdmodel as rd
from rdmodel.gpu.config import GPU
from rdmodel.trace import ALL_NEEDS, WARP, Columns, Launch, Op, Space, Trace

Addresses = Sequence[int]
"""Byte addresses that one thread of a warp loads, in order."""


class Clock:
    """A stopwatch for launches on a hidden machine; `launches` counts them.

    Each launch is one block on one SM and begins with empty caches.
    """

    def __init__(self, gpu: str | GPU, **options: Any) -> None:
        self._gpu, self._options = gpu, {"sms": 1, **options}
        self.launches = 0

    def chain(self, addresses: Addresses) -> int:
        """Return the cycles of one warp in which each load waits for the load before it."""
        return self._time([addresses], ALL_NEEDS)

    def together(self, warps: Sequence[Addresses]) -> int:
        """Return the cycles of some warps whose loads do not wait for each other."""
        return self._time(warps, 0)

    def _time(self, warps: Sequence[Addresses], needs: int) -> int:
        self.launches += 1
        return rd.simulate(loads(warps, needs), self._gpu, **self._options).cycles


def loads(warps: Sequence[Addresses], needs: int) -> Trace:
    """Return a launch of one block in which the first thread of every warp loads its addresses."""
    lengths = [len(addresses) for addresses in warps]
    n = sum(lengths)
    columns = Columns(
        warp_start=np.cumsum([0, *lengths]),
        pc=np.arange(n, dtype=np.int32),
        op=np.full(n, Op.LOAD, np.uint8),
        space=np.full(n, Space.GLOBAL, np.uint8),
        size=np.full(n, 4, np.uint8),
        gap=np.zeros(n, np.int32),
        needs=np.full(n, needs, np.uint64),
        loop_exit=np.zeros(n, np.bool_),
        mask=np.ones(n, np.uint32),
        address_start=np.arange(n + 1),
        addresses=np.concatenate([np.asarray(addresses, np.int64) for addresses in warps]),
    )
    return Trace(
        Launch(kernel="microbenchmark", grid=(1, 1, 1), block=(len(warps) * WARP, 1, 1)), columns, trusted=True
    )
