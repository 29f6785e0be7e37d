"""Keep sorted warp instructions packed in temporary files, and unpack them block by block."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.memory import WINDOW_BYTES
from rdmodel.errors import TraceError
from rdmodel.trace import Columns, slice_warps
from rdmodel.trace.storage import compact_ids
from tracegen.formats.ordering import _gather
from tracegen.formats.ordering.external_sort import SpilledRuns
from tracegen.formats.ordering.rows import (
    ADDRESS_BYTES,
    ROW_FIELDS,
    ROW_TYPE,
    Rows,
    Scratch,
    Words,
    join_rows,
    sort_rows,
)

MAX_ENTRIES = 1 << 18
"""Blocks in runs that an index holds, in 64 bytes each."""

MAX_UNPACKED_BYTES = WINDOW_BYTES
"""Bytes that the unpacked blocks in use may take, as the pages in use of mapped columns may."""

MAX_SLOTS = 64
"""Warp slots that an entry tells apart."""

_ENTRY_FIELDS = ("block", "row", "rows", "word", "words", "accesses", "lanes")
ENTRY_TYPE = np.dtype([*((name, "i8") for name in _ENTRY_FIELDS), ("slots", "u8")])
"""The rows of a block in one sorted run: where they and their words begin and how many there are, those that access
memory with their addresses, and the slots of the warps that do, one bit each."""

Merge = Callable[[], tuple[Columns, Sequence[int]]]

_FIRST_ENTRIES = 1 << 10
_BYTES_PER_ACCESS = 40
"""Entries of a new index, and bytes of the columns of an instruction without its addresses."""


class BlockIndex:
    """The blocks in sorted runs, in the order of the runs; `slots` is the number of keys that a block has."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._entries = np.empty(_FIRST_ENTRIES, ENTRY_TYPE)
        self._count = self._run = self._row = self._word = 0
        self.has_cache_ops = False

    @property
    def complete(self) -> bool:
        """False if there were too many blocks: the index then lacks some."""
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

    As soon as the blocks in use would take more than `MAX_UNPACKED_BYTES`, columns of all blocks are made.

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
        Merges the runs into columns and the ids of their blocks, and leaves them as they are.

    Raises
    ------
    TraceError
        If a block has more warps than `block_warps`.
    """

    def __init__(self, block_warps: int, slots: int, index: BlockIndex, runs: SpilledRuns, merge: Merge) -> None:
        self._warps, self._slots = block_warps, slots
        self._runs: SpilledRuns | None = runs
        self._merge: Merge | None = merge
        self._columns: Columns | None = None
        self._lock = threading.Lock()
        self._in_use = _BytesInUse()
        self.has_cache_ops = index.has_cache_ops
        entries = index.entries[np.argsort(index.entries["block"], kind="stable")]
        self._entries = entries
        starts = np.flatnonzero(np.diff(entries["block"], prepend=-1))
        self._ids = np.ascontiguousarray(entries["block"][starts])
        self._starts = np.append(starts, len(entries))
        self._accesses, self._lanes = (np.add.reduceat(entries[name], starts) for name in ("accesses", "lanes"))
        self._used_slots = np.bitwise_or.reduceat(entries["slots"], starts)
        used = np.bitwise_count(self._used_slots)
        if (used > block_warps).any():
            at = int(np.argmax(used > block_warps))
            raise TraceError(f"block {self._ids[at]} has {used[at]} warps, but a block of the launch has {block_warps}")
        self.accesses = int(self._accesses.sum())

    @property
    def blocks(self) -> Sequence[int]:
        """The ascending ids of the blocks that occur."""
        return compact_ids(self._ids)

    def columns(self) -> Columns:
        """Return the columns of all blocks, which are made the first time; the packed instructions are dropped then."""
        with self._lock:
            if self._columns is None:
                assert self._merge is not None
                self._columns, _ = self._merge()
                self._runs = self._merge = None
        return self._columns

    def lanes(self, block: int) -> int:
        """Return the number of addresses of a block."""
        return int(self._lanes[self._place(block)])

    def locate(self, block: int) -> tuple[Columns, int]:
        """Return columns that hold a block, and the number of its first warp in them.

        They are those of this block, unless the blocks in use take too much memory, or the columns of all blocks exist.
        """
        at, runs = self._place(block), self._runs
        size = _BYTES_PER_ACCESS * int(self._accesses[at]) + ADDRESS_BYTES * int(self._lanes[at])
        if runs is None or self._in_use.total + size > MAX_UNPACKED_BYTES:
            return self.columns(), at * self._warps
        columns = self._unpack(at, runs)
        self._in_use.add(columns.addresses, size)
        return columns, 0

    def block(self, block: int) -> Columns:
        """Return the columns of one block."""
        columns, first = self.locate(block)
        return columns if columns.warps == self._warps else slice_warps(columns, first, first + self._warps)

    def _place(self, block: int) -> int:
        """Return the place of a block among those that occur."""
        return int(np.searchsorted(self._ids, block))

    def _unpack(self, at: int, runs: SpilledRuns) -> Columns:
        rows, words = _read(self._entries[self._starts[at] : self._starts[at + 1]], runs)
        accesses, lanes, slots = int(self._accesses[at]), int(self._lanes[at]), int(self._used_slots[at])
        columns = {name: np.empty(accesses, ROW_TYPE[name]) for name in ROW_FIELDS}
        columns["loop_exit"] = np.empty(accesses, np.uint8)
        columns["warp_start"] = np.empty(self._warps + 1, np.int64)
        columns["address_start"], columns["addresses"] = np.empty(accesses + 1, np.int64), np.empty(lanes, np.int64)
        cache_op = np.empty(accesses, np.uint8) if self.has_cache_ops else None
        _gather.unpack_block(
            rows, words, int(self._ids[at]) * self._slots, slots, slots >> self._warps != 0, **columns,
            cache_op=cache_op,
        )  # fmt: skip
        columns["loop_exit"] = columns["loop_exit"].view(np.bool_)
        return Columns(**columns, cache_op=cache_op)


class _BytesInUse:
    """Counts the bytes of unpacked blocks until they are dropped."""

    def __init__(self) -> None:
        self.total = 0
        self._lock = threading.RLock()  # a block may be dropped at any moment, also while this thread counts another

    def add(self, addresses: NDArray[np.int64], size: int) -> None:
        """Count `size` bytes as long as something uses the memory of `addresses`."""
        self._change(size)
        # Views keep the array alive that owns the memory, not each other.
        owner = addresses if addresses.base is None else addresses.base
        weakref.finalize(owner, self._change, -size).atexit = False

    def _change(self, size: int) -> None:
        with self._lock:
            self.total += size


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
