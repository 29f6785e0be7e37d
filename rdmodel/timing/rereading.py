"""Estimate what blocks find in the L2 of arrays that all blocks read, in no order, again and again.

Blocks that are far apart in the grid share such data: the values of a table, or the vector of a sparse product. What a
block reads of an array is taken to be a random part of it (the independent reference model), and the L2 to replace the
least recently used data. Then data stay for about the same time, within which the L2 is filled once (Che, Tung and
Wang, *Hierarchical Web Caching Systems*, IEEE JSAC 20(7), 2002, section III).
"""

from __future__ import annotations

from math import exp

import numpy as np

from rdmodel.timing.footprints import Footprints
from rdmodel.timing.sharing import REPEATED

_HALVINGS = 60
"""Steps of the search for the time for which data stay."""


def bytes_left_by_others(footprints: Footprints, fresh: float, written: float, room: float) -> float:
    """Return the bytes of `fresh` that blocks far away in the grid have left in the L2, as an expected value.

    `fresh` are the bytes that a block reads and that no neighbour has left there, and `written` those that it writes.
    `room` are the bytes of the L2. Only arrays count that fit in it, and that blocks read more than twice in all, since
    pieces at the borders of blocks are read twice in any array.
    """
    launch = footprints.trace.launch
    again, size, once = 0.0, 0, float(np.mean([len(each.reads) for each in footprints.known.values()]))
    once *= footprints.unit
    for array in launch.arrays:
        read = float(np.mean(footprints.read_of(array))) * footprints.unit
        if read * launch.blocks > REPEATED * array.bytes:
            again, size, once = again + read, size + array.bytes, once - read
    once = max(0.0, once)
    fresh = min(again, fresh - once)
    first = size / launch.blocks  # of each array, all is read for the first time by some block
    if fresh <= first or size > room:
        return 0.0
    return (fresh - first) * (1 - _missing_share(fresh / size, size, once + written, room))


def _missing_share(rate: float, size: float, other: float, room: float) -> float:
    """Return the share of the reads of arrays of `size` bytes that miss a cache with room for `room` bytes.

    A block reads the share `rate` of them, and `other` bytes that nothing else reads.
    """
    if other <= 0:
        return 0.0  # the arrays fit, and nothing displaces them
    low, high = 0.0, room / other
    for _ in range(_HALVINGS):
        blocks = (low + high) / 2
        filled = size * (1 - exp(-blocks * rate)) + blocks * other
        low, high = (blocks, high) if filled < room else (low, blocks)
    return exp(-low * rate)
