"""Keep sorted warp instructions packed in temporary files, and unpack them block by block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from rdmodel.trace import Columns, slice_warps
from rdmodel.trace.storage import compact_ids
from tracegen.formats.ordering import _gather
from tracegen.formats.ordering.external_sort import SpilledRuns
from tracegen.formats.ordering.rows import ROW_FIELDS, ROW_TYPE, Rows, Scratch, Words, join_rows, sort_rows

MAX_ENTRIES = 1 << 19
"""Blocks in runs that are kept in memory, in 64 bytes each."""

MAX_PACKED_ROWS = 1 << 17
"""Instructions of a block that are unpacked in memory; they take up to 40 MB."""

MAX_SLOTS = 64
"""Warp slots that an entry tells apart."""

_ENTRY_FIELDS = ("block", "row", "rows", "word", "words", "accesses", "lanes")
ENTRY_TYPE = np.dtype([*((name, "i8") for name in _ENTRY_FIELDS), ("slots", "u8")])
"""The rows of a block in one sorted run: where they and their words begin and how many there are, those that access
memory with their addresses, and the slots of the warps that do, one bit each."""

_FIRST_ENTRIES = 1 << 10


class BlockIndex:
    """The blocks in sorted runs, in the order of the runs; `slots` is the number of keys that a block has."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._entries = np.empty(_FIRST_ENTRIES, ENTRY_TYPE)
        self._count = self._run = self._row = self._word = 0
        self.has_cache_ops = False

    @property
    def complete(self) -> bool:
        """False if there were too many blocks: the index then holds none."""
        return self._slots <= MAX_SLOTS and self._count <= MAX_ENTRIES

    @property
    def entries(self) -> NDArray[np.void]:
        """All entries, run by run, of type `ENTRY_TYPE`."""
        return self._entries[: self._count]

    def begin_run(self) -> None:
        """Begin another run: its rows get entries of their own."""
        self._run = self._count

    def add(self, rows: Rows) -> None:
        """Add the next rows of the run, sorted by key."""
        if not self.complete:
            return
        if len(self._entries) - self._count < len(rows):
            more = np.empty(max(2 * self._count, self._count + len(rows)), ENTRY_TYPE)
            more[: self._count] = self.entries
            self._entries = more
        found, words, cached = _gather.index_blocks(
            rows, self._slots, self._entries[self._run :], self._count - self._run, self._row, self._word
        )
        self._count = self._run + found
        self._row += len(rows)
        self._word += words
        self.has_cache_ops |= cached > 0


class PackedInstructions:
    """The instructions of all warps in sorted runs, of which each block is unpacked when it is asked for.

    Parameters
    ----------
    block_warps : int
        Warps in a block.
    slots : int
        Keys of a block, at most `MAX_SLOTS`.
    index : BlockIndex
        The blocks in the runs.
    runs : SpilledRuns
        The runs, flushed.
    merge : callable
        Merges the runs into columns, without changing them.

    Raises
    ------
    TraceError
        If a block has more warps than `block_warps`.
    """

    def __init__(
        self, block_warps: int, slots: int, index: BlockIndex, runs: SpilledRuns, merge: Callable[[], Columns]
    ) -> None:
        self._warps, self._slots = block_warps, slots
        self._runs: SpilledRuns | None = runs
        self._merge: Callable[[], Columns] | None = merge
        self._columns: Columns | None = None
        self._lock = threading.Lock()
        self.has_cache_ops = index.has_cache_ops
        entries = index.entries[np.argsort(index.entries["block"], kind="stable")]
        self._entries = entries
        starts = np.flatnonzero(np.diff(entries["block"], prepend=-1))
        self._ids = np.ascontiguousarray(entries["block"][starts])
        self._starts = np.append(starts, len(entries))
        self._used_slots = np.bitwise_or.reduceat(entries["slots"], starts)
        self._ranked = self._used_slots >> np.uint64(block_warps) != 0 if slots > block_warps else np.zeros(len(starts))
        used = np.bitwise_count(self._used_slots)
        if (used > block_warps).any():
            at = int(np.argmax(used > block_warps))
            raise TraceError(f"block {self._ids[at]} has {used[at]} warps, but a block of the launch has {block_warps}")
        self.accesses = int(entries["accesses"].sum())

    @property
    def blocks(self) -> Sequence[int]:
        """The ascending ids of the blocks that occur."""
        return compact_ids(self._ids)

    def columns(self) -> Columns:
        """Return the columns of all blocks, which are made the first time; the packed instructions are dropped then."""
        with self._lock:
            if self._columns is None:
                assert self._merge is not None
                self._columns = self._merge()
                self._runs = self._merge = None
        return self._columns

    def lanes(self, block: int) -> int:
        """Return the number of addresses of a block."""
        return int(self._entries_of(block)["lanes"].sum())

    def locate(self, block: int) -> tuple[Columns, int]:
        """Return columns that hold a block, and the number of its first warp in them.

        They are those of this block, unless it is too long, or the columns of all blocks exist.
        """
        entries, runs = self._entries_of(block), self._runs
        if runs is None or entries["rows"].sum() > MAX_PACKED_ROWS:
            return self.columns(), int(np.searchsorted(self._ids, block)) * self._warps
        return self._unpack(block, entries, runs), 0

    def block(self, block: int) -> Columns:
        """Return the columns of one block."""
        columns, first = self.locate(block)
        return columns if columns.warps == self._warps else slice_warps(columns, first, first + self._warps)

    def _entries_of(self, block: int) -> NDArray[np.void]:
        at = int(np.searchsorted(self._ids, block))
        return self._entries[self._starts[at] : self._starts[at + 1]]

    def _unpack(self, block: int, entries: NDArray[np.void], runs: SpilledRuns) -> Columns:
        rows, words = _read(entries, runs)
        accesses, lanes = int(entries["accesses"].sum()), int(entries["lanes"].sum())
        at = int(np.searchsorted(self._ids, block))
        columns = {name: np.empty(accesses, ROW_TYPE[name]) for name in ROW_FIELDS}
        columns["loop_exit"] = np.empty(accesses, np.uint8)
        columns["warp_start"] = np.empty(self._warps + 1, np.int64)
        columns["address_start"], columns["addresses"] = np.empty(accesses + 1, np.int64), np.empty(lanes, np.int64)
        cache_op = np.empty(accesses, np.uint8) if self.has_cache_ops else None
        _gather.unpack_block(
            rows, words, block * self._slots, int(self._used_slots[at]), bool(self._ranked[at]), **columns,
            cache_op=cache_op,
        )  # fmt: skip
        columns["loop_exit"] = columns["loop_exit"].view(np.bool_)
        return Columns(**columns, cache_op=cache_op)


def _read(entries: NDArray[np.void], runs: SpilledRuns) -> tuple[Rows, Words]:
    """Return the rows of some entries in order, with their words."""
    parts = [
        (runs.rows.read(ROW_TYPE, row, count), runs.words.read(np.int64, word, words))
        for _, row, count, word, words, *_ in entries.tolist()
    ]
    if len(parts) == 1:
        return parts[0]
    rows, packed = zip(*parts, strict=True)
    return sort_rows(join_rows(rows), np.concatenate(packed), Scratch())
