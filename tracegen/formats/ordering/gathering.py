"""Sort warp instructions into the order of a trace, by block and warp, in bounded memory.

A recorded trace has the instructions of all warps interleaved as they arrived. `Gathering` sorts them by block and
warp, and keeps the order within a warp. Traces that are too large for its memory are sorted in runs, which are written
to temporary files and merged from there (Knuth, *The Art of Computer Programming* 3, section 5.4). Meanwhile, evenly
spaced addresses are stored as the first one and the step, and addresses near each other as 32-bit differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import WARP, Columns
from tracegen.formats.ordering._gather import append_rows
from tracegen.formats.ordering.columns import ColumnSink
from tracegen.formats.ordering.external_sort import SpilledRuns
from tracegen.formats.ordering.rows import (
    ADDRESS_BYTES,
    MAX_ROW_BYTES,
    ROW_FIELDS,
    ROW_TYPE,
    Rows,
    Scratch,
    Words,
    count_words,
    sort_rows,
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
        self._used = self._filled = self._lanes = 0
        self._max_lanes_in_memory = memory // 2 // ADDRESS_BYTES
        self._window = max(memory // 3 // MAX_ROW_BYTES, 1)
        self._scratch = Scratch()
        self._runs: SpilledRuns | None = None

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
            at, end, self._used, self._filled = append_rows(
                block, warp, self._slots, **arrays,
                first=at, lane=lane, rows=self._rows, row=self._used, words=self._words, used=self._filled,
            )  # fmt: skip
            self._lanes += end - lane
            lane = end
            if at == len(block):
                break
            self._flush()

    def finish(self) -> tuple[Columns, Sequence[int]]:
        """Return all instructions, and the ascending ids of the blocks that occur.

        Warps without instructions are empty. The columns are in memory, or mapped from a temporary file. Nothing may
        be added afterwards. Raises `TraceError` if a block has more warps than `block_warps`, or if a temporary file
        cannot be written.
        """
        sink = ColumnSink(
            self._warps, self._slots, in_memory=self._runs is None and self._lanes <= self._max_lanes_in_memory
        )
        if self._runs is None:
            rows, words = sort_rows(self._rows[: self._used], self._words[: self._filled], self._scratch)
            del self._rows, self._words
            start = np.concatenate([[0], np.cumsum(count_words(rows))])
            step = len(rows) if sink.in_memory else self._window
            for first in range(0, len(rows), step or 1):
                last = min(first + step, len(rows))
                sink.append(rows[first:last], words[start[first] : start[last]])
            return sink.finish()
        self._flush()
        del self._rows, self._words
        for rows, words in self._runs.merged(self._window, self._scratch):
            sink.append(rows, words)
        return sink.finish()

    def _flush(self) -> None:
        if self._runs is None:
            self._runs = SpilledRuns()
        self._runs.append(*sort_rows(self._rows[: self._used], self._words[: self._filled], self._scratch))
        self._used = self._filled = 0
