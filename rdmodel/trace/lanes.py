"""Check that active lanes belong to threads: the last warp of a block may have fewer than 32.

Barriers are exempt, since no address belongs to their lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace.columns import VALUES_PER_CHECK, Columns, Op
from rdmodel.trace.launch import WARP, Launch
from rdmodel.trace.mapped_pages import Pages

ALL_LANES = (1 << WARP) - 1
"""The mask of a warp in which every lane is active."""


def last_warp_mask(launch: Launch) -> int:
    """Return the mask of the lanes that have a thread in the last warp of a block."""
    return ALL_LANES >> (-launch.block_threads % WARP)


def check_lanes(launch: Launch, columns: Columns, blocks: Sequence[int], pages: Pages | None = None) -> None:
    """Raise `TraceError`, which names block, warp and instruction, if the lane of a missing thread is active.

    `columns` must be consistent (`Columns.check`). The time is O(instructions), in bounded memory; `pages`, if the
    columns are mapped from files, are released.
    """
    warps = launch.block_warps
    for rows, of_warp in wide_instructions(launch, columns, 0, len(columns.warp_start) - 1, pages):
        last = np.flatnonzero(of_warp % warps == warps - 1)
        if len(last):
            row, warp = int(rows[last[0]]), int(of_warp[last[0]])
            missing = int(columns.mask[row]) & ~last_warp_mask(launch)
            lane = (missing & -missing).bit_length() - 1
            raise TraceError(
                f"block {blocks[warp // warps]}, warp {warps - 1}, instruction {row - int(columns.warp_start[warp])}: "
                f"lane {lane} is active without a thread: a block has {launch.block_threads} threads"
            )


def wide_instructions(
    launch: Launch, columns: Columns, first_warp: int, end_warp: int, pages: Pages | None = None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the accesses of warps ``first_warp:end_warp`` that fit no last warp of a block, in chunks.

    A chunk is two ascending arrays of equal length: rows, and the warps of these rows.
    """
    missing = np.uint32(ALL_LANES & ~last_warp_mask(launch))
    starts = columns.warp_start[first_warp : end_warp + 1]
    if not missing or len(starts) < 2:
        return
    for first in range(int(starts[0]), int(starts[-1]), VALUES_PER_CHECK):
        part = slice(first, min(first + VALUES_PER_CHECK, int(starts[-1])))
        rows = first + np.flatnonzero((columns.mask[part] & missing != 0) & (columns.op[part] != int(Op.BARRIER)))
        if len(rows):
            yield rows, first_warp + np.searchsorted(starts, rows, side="right") - 1
        if pages is not None:
            pages.read(part.start, part.stop)
    if pages is not None:
        pages.give_back()
