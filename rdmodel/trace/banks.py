"""Count the wavefronts of accesses to shared memory: passes over its 32 banks of four bytes.

The lanes of a warp are served in groups: all lanes together if each accesses up to 4 bytes, half warps for 8 bytes,
quarter warps for 16. Groups are twice as large where lanes access the same place in pairs: all lanes i and i ^ 1, or
all i and i ^ 2, of those that are active (NVIDIA's developer forum, thread 77228, for compute capability 7.0 to 7.5;
on an H200, products of matrices take the time that follows). A wavefront serves lanes of one group whose words lie in
different banks, or are the same word. Atomics that update one word are served one after the other, and in the smaller
groups.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rdmodel.trace._banks import count_wavefronts as _count
from rdmodel.trace.launch import WARP


def count_wavefronts(
    addresses: NDArray[np.int64], masks: NDArray[np.uint32], sizes: ArrayLike, atomic: ArrayLike = False
) -> NDArray[np.int64]:
    """Return the wavefronts and the groups of lanes of each instruction, of shape (n, 2).

    Parameters
    ----------
    addresses
        Byte addresses of the lanes, of shape (n, 32) and at least 0 for active ones.
    masks
        Active lanes of each instruction as bits, of shape (n,).
    sizes
        Bytes per lane, 1 to 16, of each instruction or of all.
    atomic
        Whether each instruction, or all, are atomics.
    """
    n = len(masks)
    result = np.zeros((n, 2), np.int64)
    _count(
        np.ascontiguousarray(addresses, np.int64).reshape(n, WARP),
        np.ascontiguousarray(masks, np.uint32),
        np.full(n, sizes, np.uint8),
        np.full(n, atomic, np.uint8),
        result,
    )
    return result
