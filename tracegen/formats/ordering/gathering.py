"""Warp instructions in any order of blocks and warps, put into the order of a trace, in bounded memory.

A recorded trace has the instructions of all warps interleaved as they arrived. `Gathering` sorts them by block
and warp, and keeps the order within a warp. Traces that are too large for its memory are sorted in runs, which go
to temporary files and are merged from there (Knuth, *The Art of Computer Programming* 3, section 5.4). On the
way, addresses are kept as the first one and the step where they are evenly spaced, and as 32-bit differences where they
lie near each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import WARP, Columns, Op
from tracegen.formats.ordering._gather import pack
from tracegen.formats.ordering.columns import Sink
from tracegen.formats.ordering.external_sort import Spill
from tracegen.formats.ordering.rows import (
    ADDRESS,
    FULL_ROW,
    LOOP_EXIT,
    ROW,
    STORED,
    Room,
    Rows,
    Words,
    in_order,
    words_of,
)

MEMORY = 64 << 20
"""Bytes that a `Gathering` works in, if nobody says otherwise."""


class Gathering:
    """Sorts warp instructions by block and warp; stable, so what a warp did stays in order.

    `block_warps` is the number of warps in a block. Trace files may number warps by the slots of the SM instead:
    `slots` (default: `block_warps`) is then above every number that occurs, and the warps of a block in which
    one is `block_warps` or more are its slots in ascending order. `memory` is in bytes; a trace that needs more
    is kept in temporary files (of ``TMPDIR``), which nothing outlives that uses them, killed processes included.
    """

    def __init__(self, block_warps: int, *, slots: int | None = None, memory: int = MEMORY) -> None:
        self._slots = block_warps if slots is None else slots
        self._warps = block_warps
        # A run is sorted into a second copy: each may have a bit less than half of the memory.
        run = max(memory * 2 // 5, 2 * FULL_ROW)
        self._rows: Rows = np.empty(max(run // 2 // ROW.itemsize, 1), ROW)
        self._words: Words = np.empty(max(run // 2 // ADDRESS, WARP), np.int64)
        self._used = self._filled = self._lanes = 0
        self._most_lanes = memory // 2 // ADDRESS
        self._window = max(memory // 3 // FULL_ROW, 1)
        self._room = Room()
        self._spill: Spill | None = None

    def add(self, block: NDArray[np.int64], warp: NDArray[np.int64], columns: Mapping[str, NDArray[Any]]) -> None:
        """Take instructions of any warps, those of a warp in program order.

        `block` and `warp` (within the block) are one per instruction, and so are ``columns``, which has all of
        `tracegen.formats.ordering.rows.FIELDS`, named and typed as in `rdmodel.trace.Columns`; ``columns["addresses"]``
        has one value per active lane, barriers have none. Rows with op `GAP` and mask 0 count for the gap of
        the warp's next one. ``block * slots`` must be below 2^63. Raises `TraceError` if a temporary file cannot
        be written.
        """
        lanes = np.bitwise_count(columns["mask"]).astype(np.int64)
        lanes[columns["op"] == Op.BARRIER] = 0
        ends = np.cumsum(lanes)
        key = block * self._slots + warp
        at = taken = 0
        while at < len(block):
            room = len(self._words) - self._filled
            end = min(at + len(self._rows) - self._used, int(np.searchsorted(ends, taken + room, side="right")))
            if end == at:
                self._flush()
                continue
            part = self._rows[self._used : self._used + end - at]
            part["key"] = key[at:end]
            for name in STORED:
                part[name] = columns[name][at:end]
            packed = np.empty(end - at, np.uint8)
            addresses = columns["addresses"][taken : int(ends[end - 1])]
            self._filled += pack(addresses, lanes[at:end], self._words[self._filled :], packed)
            part["flags"] = LOOP_EXIT * columns["loop_exit"][at:end].astype(np.uint8) | packed
            self._used += end - at
            self._lanes += len(addresses)
            at, taken = end, int(ends[end - 1])

    def finish(self) -> tuple[Columns, Sequence[int]]:
        """Return all instructions, and the ascending ids of the blocks that occur; silent warps are empty.

        The columns are in memory, or mapped from a temporary file. Nothing may be added afterwards. Raises
        `TraceError` if a block has more warps than the launch says, or a temporary file cannot be written.
        """
        sink = Sink(self._warps, self._slots, in_memory=self._spill is None and self._lanes <= self._most_lanes)
        if self._spill is None:
            rows, words = in_order(self._rows[: self._used], self._words[: self._filled], self._room)
            del self._rows, self._words
            start = np.concatenate([[0], np.cumsum(words_of(rows))])
            step = len(rows) if sink.in_memory else self._window
            for first in range(0, len(rows), step or 1):
                last = min(first + step, len(rows))
                sink.append(rows[first:last], words[start[first] : start[last]])
            return sink.finish()
        self._flush()
        del self._rows, self._words
        for rows, words in self._spill.merged(self._window, self._room):
            sink.append(rows, words)
        return sink.finish()

    def _flush(self) -> None:
        if self._spill is None:
            self._spill = Spill()
        self._spill.append(*in_order(self._rows[: self._used], self._words[: self._filled], self._room))
        self._used = self._filled = 0
