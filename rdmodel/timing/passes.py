"""Count the passes of memory instructions over the banks of the L1.

Since Volta, the L1 and shared memory are one memory of 32 banks. Lines lie across all banks, so that lanes with words
of different lines conflict as lanes of shared memory do (`rdmodel.trace.banks`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import WARP, Columns, Op, Segment, Space, Trace, locate_block
from rdmodel.trace.banks import count_wavefronts
from rdmodel.trace.columns import slice_rows

ROWS_AT_ONCE = 1 << 14
"""Instructions whose addresses are spread over lanes at a time: 4 MiB of them."""


def count_passes(trace: Trace, block: int) -> float:
    """Return the passes of the loads, stores and atomics of a block that go through the L1."""
    source, first = locate_block(trace, block)
    if not isinstance(source, Columns):
        return float(sum(segment.trips * _passes_of_segment(segment) for segment in source))
    begin, end = (int(source.warp_start[first + warp]) for warp in (0, trace.launch.block_warps))
    return float(
        sum(
            _passes_of_columns(slice_rows(source, at, min(end, at + ROWS_AT_ONCE)))
            for at in range(begin, end, ROWS_AT_ONCE)
        )
    )


def _passes_of_columns(columns: Columns) -> int:
    counted = (columns.space != int(Space.CONSTANT)) & (columns.op != int(Op.BARRIER))
    lanes = np.diff(columns.address_start)
    spread = np.zeros((len(columns), WARP), np.int64)
    active = (columns.mask[:, None] >> np.arange(WARP, dtype=np.uint32) & 1).astype(np.bool_) & (lanes > 0)[:, None]
    spread[active] = columns.addresses
    return _count(spread[counted], columns.mask[counted], columns.size[counted])


def _passes_of_segment(segment: Segment) -> int:
    # All iterations access the same places but for a distance that lanes share.
    counted = (segment.space != int(Space.CONSTANT)) & (segment.op != int(Op.BARRIER))
    base, mask = segment.base[:, counted].reshape(-1, WARP), segment.mask[:, counted].reshape(-1)
    size = np.broadcast_to(segment.size[counted], segment.mask[:, counted].shape).reshape(-1)
    return _count(np.maximum(base, 0), mask, size)


def _count(addresses: NDArray[np.int64], masks: NDArray[np.uint32], sizes: NDArray[np.uint8]) -> int:
    return int(count_wavefronts(addresses, masks, sizes)[:, 0].sum()) if len(masks) else 0
