"""Sort warp instructions into the order of a trace, by block and warp, in bounded memory.

A recorded trace has the instructions of all warps interleaved as they arrived. `Gathering` sorts them by block and
warp, and keeps the order within a warp. Traces that are too large for its memory are sorted in runs, which are written
to temporary files and merged from there (Knuth, *The Art of Computer Programming* 3, section 5.4). Meanwhile, evenly
spaced addresses are stored as the first one and the step, and addresses near each other as 32-bit differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import WARP, Columns
from tracegen.formats.ordering._gather import append_rows
from tracegen.formats.ordering.columns import ColumnSink
from tracegen.formats.ordering.external_sort import SpilledRuns
from tracegen.formats.ordering.packed import BlockIndex, PackedInstructions
from tracegen.formats.ordering.rows import (
    ADDRESS_BYTES,
    MAX_ROW_BYTES,
    ROW_FIELDS,
    ROW_TYPE,
    Rows,
    Scratch,
    Words,
    count_lanes,
    sort_rows,
    sorted_windows,
)

SORT_MEMORY_BYTES = 64 << 20
"""Default memory of a `Gathering`."""


class Gathering:
    """Sorts warp instructions by block and warp; the sort is stable, so the instructions of a warp stay in order.

    Parameters
    ----------
    block_warps : int
        Warps in a block.
    slots : int, optional
        Upper bound (exclusive) of the warp numbers, `block_warps` by default. Some files number warps by their slots
        on the SM. If a block has a number of `block_warps` or more, its warps are its slots in ascending order.
    memory : int
        Memory in bytes. Larger traces are kept in temporary files (in ``TMPDIR``), which disappear with their last
        user, even if the process is killed.
    """

    def __init__(self, block_warps: int, *, slots: int | None = None, memory: int = SORT_MEMORY_BYTES) -> None:
        self._slots = block_warps if slots is None else slots
        self._warps = block_warps
        # Sorting a run needs a second copy: each may have a bit less than half of the memory.
        run = max(memory * 2 // 5, 2 * MAX_ROW_BYTES)
        self._rows: Rows = np.empty(max(run // 2 // ROW_TYPE.itemsize, 1), ROW_TYPE)
        self._words: Words = np.empty(max(run // 2 // ADDRESS_BYTES, WARP), np.int64)
        self._used = self._filled = 0
        self._max_lanes_in_memory = memory // 2 // ADDRESS_BYTES
        self._window = max(memory // 3 // MAX_ROW_BYTES, 1)
        self._scratch = Scratch()
        self._runs: SpilledRuns | None = None
        self._index = BlockIndex(self._slots)

    def add(self, block: NDArray[np.int64], warp: NDArray[np.int64], columns: Mapping[str, NDArray[Any]]) -> None:
        """Append instructions of any warps, those of a warp in program order.

        Parameters
        ----------
        block, warp : array of int64, one value per instruction
            The block, and the warp (or slot) within it. ``block * slots`` must be below 2^63.
        columns : mapping of arrays
            The columns `tracegen.formats.ordering.rows.INSTRUCTION_FIELDS`, named and typed as in
            `rdmodel.trace.Columns`, and ``"addresses"`` with one value per active lane (barriers have none). If
            ``"cache_op"`` is missing, no instruction has a cache operator.
            Instructions with op `NO_ACCESS_OP` and mask 0 count for the gap of the warp's next one.

        Raises
        ------
        TraceError
            If a temporary file cannot be written.
        """
        arrays: dict[str, Any] = {name: np.ascontiguousarray(columns[name], ROW_TYPE[name]) for name in ROW_FIELDS}
        arrays["loop_exit"] = np.ascontiguousarray(columns["loop_exit"], np.bool_).view(np.uint8)
        arrays["cache_op"] = np.ascontiguousarray(columns["cache_op"]) if "cache_op" in columns else None
        arrays["addresses"] = np.ascontiguousarray(columns["addresses"])
        block, warp = np.ascontiguousarray(block), np.ascontiguousarray(warp)
        at = lane = 0
        while True:
            at, lane, self._used, self._filled = append_rows(
                block, warp, self._slots, **arrays,
                first=at, lane=lane, rows=self._rows, row=self._used, words=self._words, used=self._filled,
            )  # fmt: skip
            if at == len(block):
                break
            self.make_room()

    @property
    def room(self) -> tuple[Rows, int, Words, int]:
        """The arrays of rows and of their packed addresses, each with the number that it holds; for compiled parsers.

        The key of a row is ``block * slots + warp``.
        """
        return self._rows, self._used, self._words, self._filled

    def take(self, row: int, used: int) -> None:
        """Take what a parser has written: the arrays of `room` hold `row` rows and `used` words now."""
        self._used, self._filled = row, used

    def make_room(self) -> None:
        """Empty the arrays of `room`, which have room for one row with `WARP` words at least.

        Raises `TraceError` if a temporary file cannot be written.
        """
        if self._runs is None:
            self._runs = SpilledRuns()
        self._index.begin_run()
        parts = sorted_windows(self._rows[: self._used], self._words[: self._filled], self._scratch)
        self._runs.append_parts(self._indexed(parts))
        self._used = self._filled = 0

    def _indexed(self, parts: Iterator[tuple[Rows, Words]]) -> Iterator[tuple[Rows, Words]]:
        for rows, words in parts:
            self._index.add(rows)
            yield rows, words

    def finish(self) -> tuple[Columns, Sequence[int]]:
        """Return all instructions, and the ascending ids of the blocks that occur.

        Warps without instructions are empty. The columns are in memory, or mapped from a temporary file. Nothing may
        be added afterwards. Raises `TraceError` if a block has more warps than `block_warps`, or if a temporary file
        cannot be written.
        """
        if self._fits_memory():
            rows, words = sort_rows(self._rows[: self._used], self._words[: self._filled], self._scratch)
            del self._rows, self._words
            sink = ColumnSink(self._warps, self._slots, in_memory=True)
            if len(rows):
                sink.append(rows, words)
            return sink.finish()
        return _merge(self._close(), self._warps, self._slots, self._window)

    def finish_packed(self) -> PackedInstructions | None:
        """Return all instructions packed, or None if they fit memory, or are of too many blocks: `finish` returns them.

        Raises `TraceError` as `finish` does.
        """
        if self._fits_memory():
            return None
        runs = self._close()
        if not self._index.complete:
            return None
        runs.keep()
        merge = partial(_merge, runs, self._warps, self._slots, self._window)
        return PackedInstructions(self._warps, self._slots, self._index, runs, merge)

    def _fits_memory(self) -> bool:
        lanes = count_lanes(self._rows[: self._used])
        return self._runs is None and int(lanes.sum()) <= self._max_lanes_in_memory

    def _close(self) -> SpilledRuns:
        """Write the last run, and free the memory for others; return all runs."""
        if self._used or self._runs is None:
            self.make_room()
        assert self._runs is not None
        self._rows, self._words = self._rows[:0].copy(), self._words[:0].copy()
        self._scratch = Scratch()
        self._runs.flush()
        return self._runs


def _merge(runs: SpilledRuns, warps: int, slots: int, window: int) -> tuple[Columns, Sequence[int]]:
    """Return the columns of all runs, and the ids of their blocks, with about `window` rows in memory."""
    sink = ColumnSink(warps, slots, in_memory=False)
    for rows, words in runs.merged(window, Scratch()):
        sink.append(rows, words)
    return sink.finish()
