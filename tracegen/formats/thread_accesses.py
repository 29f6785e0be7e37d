"""Accesses of single threads in any order, put in the order of threads, in bounded memory.

What does not fit is sorted in runs, which go to temporary files and are merged from there
(`tracegen.formats.ordering.external_sort`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import WARP
from rdmodel.trace.mapped_pages import Pages
from tracegen.formats._trc import sort
from tracegen.formats.ordering.external_sort import Spill, TemporaryFile
from tracegen.formats.ordering.rows import Room, Rows, Words

ACCESS = np.dtype([("key", "i8"), ("address", "i8")])
"""An access: its thread, over the whole grid, and its kind (bytes, plus 128 for a store) in the lowest `KIND_BITS`."""

KIND_BITS = 8
STORE = 0x80

Accesses = NDArray[np.int64]
"""Accesses as pairs of numbers: (n, 2)."""

_NO_WORDS: Words = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Warps:
    """All accesses of some warps, by thread; `give_back` lets go of the pages that were read of mapped ones."""

    accesses: Accesses
    give_back: Callable[[], None] | None = None


class ByThread:
    """Sorts accesses by thread; stable, so what a thread did stays in order. `memory` is in bytes."""

    def __init__(self, memory: int) -> None:
        # A run is sorted into a second copy: each may have a bit less than half of the memory.
        self._buffer = np.empty((max(memory * 2 // 5 // ACCESS.itemsize, 1), 2), np.int64)
        self._used = 0
        self._window = max(memory // 10 // ACCESS.itemsize, 1)
        self._most = max(memory // 4 // ACCESS.itemsize, 1)
        self._room = Room()
        self._spill: Spill | None = None
        self.count = 0
        self.reads = False

    @property
    def spilled(self) -> bool:
        """Whether accesses are in temporary files."""
        return self._spill is not None

    def room(self, count: int) -> Accesses:
        """Return room for the next `count` accesses, which `take` then takes; raise `TraceError` if a disk is full."""
        if len(self._buffer) - self._used < count:
            self._flush()
            if len(self._buffer) < count:
                self._buffer = np.empty((count, 2), np.int64)
        return self._buffer[self._used :]

    def take(self, count: int) -> None:
        """Take the first `count` accesses in that room."""
        new = self._buffer[self._used : self._used + count]
        self.reads = self.reads or bool((new[:, 0] & STORE == 0).any())
        self._used += count
        self.count += count

    def finish(self, block_threads: int) -> Iterator[Warps]:
        """Yield all accesses by warp, each warp whole; what was yielded is no longer valid when the next is."""
        if self._spill is None:
            rows = self._buffer[: self._used]
            del self._buffer
            yield Warps(_sorted(rows, self._room))
            return
        self._flush()
        del self._buffer
        self._room = Room()  # merging needs much less than sorting did
        pieces = (_as_pairs(rows) for rows, _ in self._spill.merged(self._window, self._room))
        yield from _whole_warps(pieces, block_threads, self._most)

    def _flush(self) -> None:
        if not self._used:
            return
        if self._spill is None:
            self._spill = Spill(ACCESS, ignored=KIND_BITS, sort=_in_order, words_of=_without_words)
        ordered = _sorted(self._buffer[: self._used], self._room)
        self._spill.append(ordered.view(ACCESS).reshape(-1), _NO_WORDS)
        self._used = 0


# ---- Order


def _sorted(accesses: Accesses, room: Room) -> Accesses:
    """Return accesses by thread, perhaps in `room`; those given are no longer valid."""
    other = room.of(accesses.size).reshape(-1, 2)
    return other if sort(accesses, other) else accesses


def _in_order(rows: Rows, words: Words, room: Room) -> tuple[Rows, Words]:
    return _sorted(_as_pairs(rows), room).view(ACCESS).reshape(-1), words


def _as_pairs(rows: Rows) -> Accesses:
    return rows.view(np.int64).reshape(-1, 2)


def _without_words(rows: Rows) -> NDArray[np.int64]:
    return _NO_WORDS


# ---- Whole warps


def _whole_warps(pieces: Iterator[Accesses], block_threads: int, most: int) -> Iterator[Warps]:
    """Yield the accesses of sorted pieces again, cut between warps; a warp with more than `most` is in a file."""
    open_warp = _Growing(most)
    for piece in pieces:
        more = bisect_left(piece[:, 0], _beyond(open_warp.key, block_threads))
        open_warp.append(piece[:more])
        if more == len(piece):
            continue
        if open_warp.key >= 0:
            yield open_warp.finish()
        last = bisect_left(piece[:, 0], _first(int(piece[-1, 0]) >> KIND_BITS, block_threads) << KIND_BITS)
        if last > more:
            yield Warps(piece[more:last])
        open_warp = _Growing(most)
        open_warp.append(piece[last:])
    if open_warp.key >= 0:
        yield open_warp.finish()


def _first(thread: int, block_threads: int) -> int:
    """Return the first thread of a thread's warp."""
    block, local = divmod(thread, block_threads)
    return block * block_threads + local // WARP * WARP


def _beyond(key: int, block_threads: int) -> int:
    """Return the lowest key that belongs to a later warp than `key`; a negative one belongs to none."""
    if key < 0:
        return 0
    first = _first(key >> KIND_BITS, block_threads)
    return min(first + WARP, (first // block_threads + 1) * block_threads) << KIND_BITS


class _Growing:
    """The accesses of one warp, in memory as long as there are at most `most`, then in a temporary file."""

    def __init__(self, most: int) -> None:
        self.key = -1
        self._most = most
        self._parts: list[Accesses] = []
        self._count = 0
        self._file: TemporaryFile | None = None

    def append(self, accesses: Accesses) -> None:
        if not len(accesses):
            return
        self.key = int(accesses[0, 0])
        self._count += len(accesses)
        if self._file is None and self._count > self._most:
            self._file = TemporaryFile()
            for part in self._parts:
                self._file.write(part)
            self._parts.clear()
        if self._file is None:
            self._parts.append(accesses.copy())
        else:
            self._file.write(accesses)

    def finish(self) -> Warps:
        if self._file is None:
            return Warps(np.concatenate(self._parts))
        mapped = self._file.mapped(np.int64, 2 * self._count)
        pages = Pages([mapped._mmap])  # type: ignore[attr-defined]
        return Warps(mapped.reshape(-1, 2), pages.give_back)
