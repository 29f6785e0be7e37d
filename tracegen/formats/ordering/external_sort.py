"""Sorted runs of rows in temporary files, and their merging (Knuth, *The Art of Computer Programming* 3, 5.4)."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from tracegen.formats.ordering.rows import ROW, Room, Rows, Words, in_order, words_of

_WORD = np.dtype(np.int64)
_FORGET = 1 << 20
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # of Linux's fallocate


class TemporaryFile:
    """A file without a name: it is gone when nothing uses it any more, however the process ends."""

    def __init__(self) -> None:
        try:
            self._file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this object
        except OSError as error:
            raise no_room(error) from error
        weakref.finalize(self, self._file.close)

    def write(self, values: NDArray[Any]) -> None:
        """Append the bytes of an array; raise `TraceError` if there is no room."""
        try:
            self._file.write(np.ascontiguousarray(values).data)
        except OSError as error:
            raise no_room(error) from error

    def flush(self) -> None:
        """Have everything written that was; raise `TraceError` if there is no room."""
        try:
            self._file.flush()
        except OSError as error:
            raise no_room(error) from error

    def read(self, dtype: Any, first: int, count: int) -> NDArray[Any]:
        """Return `count` values of a flushed file from the one numbered `first`."""
        size = np.dtype(dtype).itemsize
        return np.frombuffer(os.pread(self._file.fileno(), count * size, first * size), dtype)

    def forget(self, begin: int, end: int) -> int:
        """Give the whole pages of bytes `begin` to `end` back, if the system can; return where the last one ends."""
        begin, end = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
        if begin < end and (fallocate := _fallocate()) is not None:
            fallocate(self._file.fileno(), _PUNCH_HOLE | _KEEP_SIZE, begin, end - begin)
        return max(begin, end)

    def mapped(self, dtype: Any, count: int) -> NDArray[Any]:
        """Return all `count` values of the file, mapped into memory; they outlive this object."""
        self.flush()
        if not count:
            return np.empty(0, dtype)
        values = np.memmap(self._file, dtype, mode="r", shape=(count,))
        # joblib hands maps to other processes by name; as long as this one has the file open, Linux has one for it.
        where = f"/proc/{os.getpid()}/fd/{self._file.fileno()}"
        if os.path.exists(where):
            vars(values).update(filename=where, file=self)
        return values


@cache
def _fallocate() -> Any:
    """Return Linux's ``fallocate``, which Python does not have, or None."""
    if not sys.platform.startswith("linux") or ctypes.sizeof(ctypes.c_long) != 8:
        return None
    found = getattr(ctypes.CDLL(None), "fallocate", None)
    if found is not None:
        found.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return found


def no_room(error: OSError) -> TraceError:
    """Return the error for a temporary file that cannot be written."""
    try:
        where = f"{tempfile.gettempdir()}: "
    except OSError:
        where = ""  # there is no folder at all, which the error says
    return TraceError(f"{where}the temporary folder (TMPDIR) cannot be written: {error.strerror or error}")


class _Cursor:
    """Reads a flushed file onwards from some place, and gives back the space of what was read."""

    def __init__(self, file: TemporaryFile, dtype: np.dtype[Any], first: int) -> None:
        self._file, self._dtype = file, dtype
        self._at = first
        self._forgotten = first * dtype.itemsize

    def read(self, count: int) -> NDArray[Any]:
        values = self._file.read(self._dtype, self._at, count)
        self._at += count
        # Pages that leave the system's cache are there for the columns: fresh ones would cost more than filling them.
        if self._at * self._dtype.itemsize - self._forgotten >= _FORGET:
            self._forgotten = self._file.forget(self._forgotten, self._at * self._dtype.itemsize)
        return values


class _Run:
    """A sorted part of the rows in the spill files, read from its start by windows."""

    def __init__(self, spill: Spill, first_key: int, row: int, count: int, word: int) -> None:
        self.first_key = first_key
        self.unread = count
        self._words_of = spill.words_of
        self._rows, self._words = _Cursor(spill.rows, spill.dtype, row), _Cursor(spill.words, _WORD, word)
        self.window: Rows = np.empty(0, spill.dtype)

    def fill(self, count: int) -> None:
        """Have at least half of `count` rows in the window, if there are as many."""
        if len(self.window) > count // 2 or not self.unread:
            return
        more = self._rows.read(min(count - len(self.window), self.unread))
        self.unread -= len(more)
        self.window = np.concatenate([self.window, more]) if len(self.window) else more

    def take(self, count: int) -> tuple[Rows, Words]:
        rows, self.window = self.window[:count], self.window[count:]
        return rows, self._words.read(int(self._words_of(rows).sum()))


class Spill:
    """Sorted runs in temporary files, and their merging.

    Rows are of `dtype` and sorted by their field ``key``, of which the lowest `ignored` bits do not count. `sort`
    does what `in_order` does, `words_of` tells how many words belong to each row.
    """

    def __init__(
        self,
        dtype: np.dtype[Any] = ROW,
        *,
        ignored: int = 0,
        sort: Callable[[Rows, Words, Room], tuple[Rows, Words]] = in_order,
        words_of: Callable[[Rows], NDArray[np.int64]] = words_of,
    ) -> None:
        self.dtype, self.sort, self.words_of = dtype, sort, words_of
        self._ignored = (1 << ignored) - 1
        self.rows, self.words = TemporaryFile(), TemporaryFile()
        self._runs: list[_Run] = []
        self._row = self._word = 0

    def append(self, rows: Rows, words: Words) -> None:
        """Take a run: rows in order, and their words."""
        if len(rows):
            self._runs.append(_Run(self, self._key(rows, 0), self._row, len(rows), self._word))
            self.rows.write(rows)
            self.words.write(words)
            self._row += len(rows)
            self._word += len(words)

    def _key(self, rows: Rows, row: int) -> int:
        return int(rows["key"][row]) & ~self._ignored

    def merged(self, window: int, room: Room) -> Iterator[tuple[Rows, Words]]:
        """Yield all rows and words in order, once; about `window` rows are in memory at a time.

        What was yielded is no longer valid when the next is.
        """
        self.rows.flush()
        self.words.flush()
        waiting = sorted(enumerate(self._runs), key=lambda run: run[1].first_key, reverse=True)
        self._runs = []  # a run that is read to its end keeps its last window
        opened: list[tuple[int, _Run]] = []
        while opened or waiting:
            # Runs whose turn has not come have no window, so that the others can have large ones.
            keys = [self._key(run.window, 0) for _, run in opened] or [waiting[-1][1].first_key]
            while waiting and waiting[-1][1].first_key <= min(keys):
                opened.append(waiting.pop())
            opened.sort()
            for _, run in opened:
                run.fill(max(window // len(opened), 1))
            runs = [run for _, run in opened]
            yield from self._merge_some(runs, waiting[-1][1].first_key if waiting else None, room)
            for _, run in opened:
                run.fill(1)
            opened = [(i, run) for i, run in opened if len(run.window)]

    def _merge_some(self, runs: list[_Run], horizon: int | None, room: Room) -> Iterator[tuple[Rows, Words]]:
        """Yield the rows that are known to come first: all with keys below what is not yet read, at least one key."""
        bounds = [self._key(run.window, -1) for run in runs if run.unread]
        bounds += [] if horizon is None else [horizon]
        cut = min(bounds, default=None)
        counts = [len(r.window) if cut is None else int(np.searchsorted(r.window["key"], cut)) for r in runs]
        if any(counts):
            parts = [run.take(count) for run, count in zip(runs, counts, strict=True) if count]
            rows, words = zip(*parts, strict=True)
            yield parts[0] if len(parts) == 1 else self.sort(np.concatenate(rows), np.concatenate(words), room)
            return
        assert cut is not None
        for run in runs:  # a whole window of one key, which goes on: one run after the other, however long
            size = max(len(run.window), 1)
            while len(run.window) and self._key(run.window, 0) == cut:
                yield run.take(int(np.searchsorted(run.window["key"], cut + self._ignored, side="right")))
                run.fill(size)
