"""Sort the accesses of single threads by thread, in bounded memory, and group them into warp instructions.

Accesses that do not fit the memory are sorted in runs, which are written to temporary files and merged from there
(`tracegen.formats.ordering.external_sort`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.trace import ALL_NEEDS, WARP, Columns, Space
from rdmodel.trace.mapped_pages import Pages
from tracegen.formats._trc import sort
from tracegen.formats.ordering.columns import ColumnSink
from tracegen.formats.ordering.external_sort import SpilledRuns, TemporaryFile
from tracegen.formats.ordering.rows import ROW_TYPE, Rows, Scratch, Words

ACCESS_TYPE = np.dtype([("key", "i8"), ("address", "i8")])
"""An access: the number of its thread in the grid, with its kind in the lowest `KIND_BITS`, and its address.

The kind is the number of bytes, plus `STORE_FLAG` for a store.
"""

KIND_BITS = 8
STORE_FLAG = 0x80
"""Number of bits of the kind of an access, and the bit of the kind that marks a store."""

Accesses = NDArray[np.int64]
"""Accesses as pairs of numbers: shape (n, 2)."""

MakeGrouper = Callable[[Accesses, int, Callable[[], None] | None], Any]
"""A compiled class that groups the accesses of whole warps: made of these, the threads of a block, and `give_back`."""

_GROUPED_INSTRUCTIONS = 1 << 17
"""Instructions, and addresses, that are formed at a time."""

_NO_WORDS: Words = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class WarpAccesses:
    """All accesses of some warps, by thread; `give_back` releases pages of mapped accesses that have been read."""

    accesses: Accesses
    give_back: Callable[[], None] | None = None


class AccessSorter:
    """Sorts accesses by thread in `memory` bytes; the sort is stable, so the accesses of a thread stay in order."""

    def __init__(self, memory: int) -> None:
        # Sorting a run needs a second copy: each may have a bit less than half of the memory.
        self._buffer = np.empty((max(memory * 2 // 5 // ACCESS_TYPE.itemsize, 1), 2), np.int64)
        self._used = 0
        self._window = max(memory // 10 // ACCESS_TYPE.itemsize, 1)
        self._max_warp_accesses = max(memory // 4 // ACCESS_TYPE.itemsize, 1)
        self._scratch = Scratch()
        self._runs: SpilledRuns | None = None
        self.count = 0

    @property
    def spilled(self) -> bool:
        """Whether accesses are in temporary files."""
        return self._runs is not None

    def reserve(self, count: int) -> Accesses:
        """Return an array for the next `count` accesses, to be taken with `append`.

        Raises `TraceError` if a temporary file cannot be written.
        """
        if len(self._buffer) - self._used < count:
            self._flush()
            if len(self._buffer) < count:
                self._buffer = np.empty((count, 2), np.int64)
        return self._buffer[self._used :]

    def append(self, count: int) -> None:
        """Take the first `count` accesses of the reserved array."""
        self._used += count
        self.count += count

    def finish(self, block_threads: int) -> Iterator[WarpAccesses]:
        """Yield all accesses in the order of threads, whole warps at a time; each part is valid until the next."""
        if self._runs is None:
            rows = self._buffer[: self._used]
            del self._buffer
            yield WarpAccesses(_sorted(rows, self._scratch))
            return
        self._flush()
        del self._buffer
        self._scratch = Scratch()  # merging needs much less than sorting did
        pieces = (_as_pairs(rows) for rows, _ in self._runs.merged(self._window, self._scratch))
        yield from _whole_warps(pieces, block_threads, self._max_warp_accesses)

    def _flush(self) -> None:
        if not self._used:
            return
        if self._runs is None:
            self._runs = SpilledRuns(ACCESS_TYPE, ignored_bits=KIND_BITS, sort=_sort_rows, count_words=_count_no_words)
        ordered = _sorted(self._buffer[: self._used], self._scratch)
        self._runs.append(ordered.view(ACCESS_TYPE).reshape(-1), _NO_WORDS)
        self._used = 0


# ---- Order


def group_accesses(
    accesses: AccessSorter, block_threads: int, make_grouper: MakeGrouper, filled: Sequence[str]
) -> tuple[Columns, Sequence[int]]:
    """Group all accesses into warp instructions; return these, and the ids of their blocks.

    A grouper fills the fields of rows whose names are in `filled`, and addresses. Every instruction needs all earlier
    loads. Raises `TraceError` if a temporary file cannot be written.
    """
    warps = -(-block_threads // WARP)
    sink = ColumnSink(warps, warps, in_memory=not accesses.spilled)
    fields = {name: np.empty(_GROUPED_INSTRUCTIONS, ROW_TYPE[name]) for name in filled}
    addresses = np.empty(_GROUPED_INSTRUCTIONS + WARP, np.int64)
    for part in accesses.finish(block_threads):
        grouper = make_grouper(part.accesses, block_threads, part.give_back)
        while True:
            count, used = grouper.fill(*fields.values(), addresses)
            if not count:
                break
            rows = np.zeros(count, ROW_TYPE)
            rows["needs"], rows["space"] = ALL_NEEDS, Space.GLOBAL
            for name, values in fields.items():
                rows[name] = values[:count]
            sink.append(rows, addresses[:used])
    return sink.finish()


def _sorted(accesses: Accesses, scratch: Scratch) -> Accesses:
    """Return accesses by thread, perhaps in `scratch`; the given ones are no longer valid."""
    other = scratch.words(accesses.size).reshape(-1, 2)
    return other if sort(accesses, other) else accesses


def _sort_rows(rows: Rows, words: Words, scratch: Scratch) -> tuple[Rows, Words]:
    return _sorted(_as_pairs(rows), scratch).view(ACCESS_TYPE).reshape(-1), words


def _as_pairs(rows: Rows) -> Accesses:
    return rows.view(np.int64).reshape(-1, 2)


def _count_no_words(rows: Rows) -> NDArray[np.int64]:
    return _NO_WORDS


# ---- Whole warps


def _whole_warps(pieces: Iterator[Accesses], block_threads: int, max_in_memory: int) -> Iterator[WarpAccesses]:
    """Cut sorted pieces between warps; a warp with more than `max_in_memory` accesses goes through a file."""
    open_warp = _GrowingWarp(max_in_memory)
    for piece in pieces:
        more = bisect_left(piece[:, 0], _end_key(open_warp.key, block_threads))
        open_warp.append(piece[:more])
        if more == len(piece):
            continue
        if open_warp.key >= 0:
            yield open_warp.finish()
        last = bisect_left(piece[:, 0], _first_thread(int(piece[-1, 0]) >> KIND_BITS, block_threads) << KIND_BITS)
        if last > more:
            yield WarpAccesses(piece[more:last])
        open_warp = _GrowingWarp(max_in_memory)
        open_warp.append(piece[last:])
    if open_warp.key >= 0:
        yield open_warp.finish()


def _first_thread(thread: int, block_threads: int) -> int:
    """Return the first thread of a thread's warp."""
    block, local = divmod(thread, block_threads)
    return block * block_threads + local // WARP * WARP


def _end_key(key: int, block_threads: int) -> int:
    """Return the lowest key of the warps after the one of `key`, which is negative for no warp."""
    if key < 0:
        return 0
    first = _first_thread(key >> KIND_BITS, block_threads)
    return min(first + WARP, (first // block_threads + 1) * block_threads) << KIND_BITS


class _GrowingWarp:
    """The accesses of one warp: up to `max_in_memory` in memory, more of them in a temporary file."""

    def __init__(self, max_in_memory: int) -> None:
        self.key = -1
        self._max_in_memory = max_in_memory
        self._parts: list[Accesses] = []
        self._count = 0
        self._file: TemporaryFile | None = None

    def append(self, accesses: Accesses) -> None:
        if not len(accesses):
            return
        self.key = int(accesses[0, 0])
        self._count += len(accesses)
        if self._file is None and self._count > self._max_in_memory:
            self._file = TemporaryFile()
            for part in self._parts:
                self._file.write(part)
            self._parts.clear()
        if self._file is None:
            self._parts.append(accesses.copy())
        else:
            self._file.write(accesses)

    def finish(self) -> WarpAccesses:
        if self._file is None:
            return WarpAccesses(np.concatenate(self._parts))
        mapped = self._file.mapped(np.int64, 2 * self._count)
        pages = Pages([mapped._mmap])  # type: ignore[attr-defined]
        return WarpAccesses(mapped.reshape(-1, 2), pages.give_back)
