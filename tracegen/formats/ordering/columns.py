"""Build the columns of a trace from sorted rows, in memory or in temporary files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace import Columns
from rdmodel.trace.storage import compact_ids
from tracegen.formats.ordering._gather import unpack
from tracegen.formats.ordering.external_sort import TemporaryFile
from tracegen.formats.ordering.rows import (
    CACHE_OP_SHIFT,
    LOOP_EXIT_FLAG,
    NARROW_FLAG,
    NO_ACCESS_OP,
    REGULAR_FLAG,
    ROW_FIELDS,
    ROW_TYPE,
    Rows,
    Scratch,
    Words,
    count_lanes,
    select_rows,
)

_BLOCKS_AT_ONCE = 1024
"""Blocks whose instructions are counted together, by warp slot."""


class GrowingColumn:
    """A column that grows, in memory or in a temporary file."""

    def __init__(self, dtype: Any, in_memory: bool) -> None:
        self._dtype = dtype
        self._parts: list[NDArray[Any]] = []
        self._file = None if in_memory else TemporaryFile()
        self.count = 0

    def append(self, values: NDArray[Any]) -> None:
        """Append values, which are converted to the dtype of the column."""
        values = np.ascontiguousarray(values, self._dtype)
        self.count += len(values)
        if self._file is None:
            self._parts.append(values)
        else:
            self._file.write(values)

    def finish(self) -> NDArray[Any]:
        """Return all values, in memory or mapped; nothing may be appended afterwards."""
        if self._file is not None:
            return self._file.mapped(self._dtype, self.count)
        if len(self._parts) > 1:
            return np.concatenate(self._parts)
        # A view would keep all of the buffer alive that it was cut from.
        return self._parts[0] if self._parts[0].base is None else self._parts[0].copy()


class CacheOpColumn:
    """A growing column of cache operators, which exists from the first instruction on that has one."""

    def __init__(self, in_memory: bool) -> None:
        self._in_memory = in_memory
        self._column: GrowingColumn | None = None

    def append(self, values: NDArray[np.uint8], before: int) -> None:
        """Append the operators of instructions that follow the `before` first ones."""
        if self._column is None:
            if not values.any():
                return
            self._column = GrowingColumn(np.dtype(np.uint8), self._in_memory)
            self._column.append(np.zeros(before, np.uint8))
        self._column.append(values)

    def finish(self) -> NDArray[np.uint8] | None:
        """Return all values; None if no instruction has an operator."""
        return None if self._column is None else self._column.finish()


class ColumnSink:
    """Collects sorted rows as the columns of a trace.

    `warps` is the number of warps in a block of the launch, `slots` the number of values that a row's key has for
    each block.
    """

    def __init__(self, warps: int, slots: int, in_memory: bool) -> None:
        self._warps, self._slots, self.in_memory = warps, slots, in_memory
        self._scratch = Scratch()
        self._columns = {name: GrowingColumn(ROW_TYPE[name], in_memory) for name in ROW_FIELDS}
        self._columns["loop_exit"] = GrowingColumn(np.dtype(np.bool_), in_memory)
        for name in ("addresses", "address_start", "warp_start", "blocks"):
            self._columns[name] = GrowingColumn(np.dtype(np.int64), in_memory)
        for name in ("address_start", "warp_start"):
            self._columns[name].append(np.zeros(1, np.int64))
        self._cache_ops = CacheOpColumn(in_memory)
        self._rows = 0
        self._block = -1
        self._gap = (-1, 0)  # a key, and the instructions to add to the gap of its next row
        self._lengths = np.zeros(slots, np.int64)  # instructions by slot of the block that is not complete

    def append(self, rows: Rows, words: Words) -> None:
        """Append rows, whose keys must not be below those of earlier rows."""
        lanes = count_lanes(rows)
        count = int(lanes.sum())
        addresses = np.empty(count, np.int64) if self.in_memory else self._scratch.words(count)
        unpack(words, lanes, np.ascontiguousarray(rows["flags"] & (REGULAR_FLAG | NARROW_FLAG)), addresses)
        all_rows = rows
        rows = self._folded(rows)
        self._cache_ops.append((rows["flags"] >> CACHE_OP_SHIFT).astype(np.uint8), self._columns["pc"].count)
        for name in ROW_FIELDS:
            self._columns[name].append(rows[name])
        self._columns["loop_exit"].append(rows["flags"] & LOOP_EXIT_FLAG)
        self._columns["address_start"].append(self._columns["addresses"].count + np.cumsum(count_lanes(rows)))
        self._columns["addresses"].append(addresses)
        block, slot = np.divmod(all_rows["key"], self._slots)
        starts = np.flatnonzero(np.diff(block, prepend=-1))
        weight = None if all_rows is rows else all_rows["op"] != NO_ACCESS_OP
        for first in range(0, len(starts), _BLOCKS_AT_ONCE):
            ids = block[starts[first : first + _BLOCKS_AT_ONCE]]
            lo = starts[first]
            hi = starts[first + len(ids)] if first + len(ids) < len(starts) else len(all_rows)
            position = np.searchsorted(ids, block[lo:hi])
            place = position * self._slots + slot[lo:hi]
            lengths = np.bincount(place if weight is None else place[weight[lo:hi]], minlength=len(ids) * self._slots)
            self._count(ids, lengths.reshape(len(ids), self._slots))

    def _folded(self, rows: Rows) -> Rows:
        """Return the rows that access memory; the others are added to the gaps of the rows that follow them."""
        between = rows["op"] == NO_ACCESS_OP
        key, left = self._gap
        left = left if key == rows["key"][0] else 0
        if not left and not between.any():
            return rows
        weight = np.where(between, rows["gap"].astype(np.int64) + 1, 0)
        before = np.cumsum(weight) - weight
        # Only rows of the same warp, after the last one that accesses memory, count for the gap of a row.
        opens = np.diff(rows["key"], prepend=-1) != 0
        opens[1:] |= ~between[:-1]
        total = before - np.maximum.accumulate(np.where(opens, before, 0))
        total[: int(np.argmax(opens[1:])) + 1 if opens[1:].any() else len(rows)] += left
        self._gap = int(rows["key"][-1]), int(total[-1] + weight[-1]) if between[-1] else 0
        accesses = select_rows(rows, np.flatnonzero(~between))
        accesses["gap"] = np.minimum(accesses["gap"] + total[~between], np.iinfo(np.int32).max)
        return accesses

    def _count(self, ids: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        if ids[0] == self._block:
            lengths[0] += self._lengths
        else:
            self._close_blocks(np.array([self._block]), self._lengths[None, :])
        self._close_blocks(ids[:-1], lengths[:-1])
        self._block, self._lengths = int(ids[-1]), lengths[-1].copy()

    def _close_blocks(self, ids: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        if not len(ids) or ids[0] < 0:
            return
        ends = self._rows + np.cumsum(self._by_warp(ids, lengths).ravel())
        self._rows = int(ends[-1])
        self._columns["warp_start"].append(ends)
        self._columns["blocks"].append(ids)

    def _by_warp(self, ids: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of instructions of every warp of some blocks, given that of every slot."""
        result = lengths[:, : self._warps].copy()
        beyond = np.flatnonzero(lengths[:, self._warps :].any(axis=1))
        if len(beyond):
            row, slot = np.nonzero(lengths[beyond])
            first = np.searchsorted(row, row)
            rank = np.arange(len(row)) - first
            if int(rank.max()) >= self._warps:
                block = int(ids[beyond[row[np.argmax(rank)]]])
                warps = int(np.count_nonzero(lengths[np.searchsorted(ids, block)]))
                raise TraceError(f"block {block} has {warps} warps, but a block of the launch has {self._warps}")
            result[beyond] = 0
            result[beyond[row], rank] = lengths[beyond[row], slot]
        return result

    def finish(self) -> tuple[Columns, Sequence[int]]:
        """Return the columns of all rows, and the ids of the blocks."""
        self._close_blocks(np.array([self._block]), self._lengths[None, :])
        columns = {name: column.finish() for name, column in self._columns.items()}
        blocks = columns.pop("blocks")
        return Columns(**columns, cache_op=self._cache_ops.finish()), compact_ids(blocks)
