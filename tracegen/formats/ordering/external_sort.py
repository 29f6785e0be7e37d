"""Write sorted runs of rows to temporary files and merge them (Knuth, *The Art of Computer Programming* 3, 5.4)."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from tracegen.formats.ordering.rows import ROW_TYPE, Rows, Scratch, Words, count_words, join_rows, sort_rows

_WORD_TYPE = np.dtype(np.int64)
_FORGET_BYTES = 1 << 20
"""Bytes that are read from a run before their space is given back."""

_KEEP_SIZE, _PUNCH_HOLE = 1, 2
"""Flags of Linux's ``fallocate``."""


class TemporaryFile:
    """A file without a name, which disappears with its last user, however the process ends."""

    def __init__(self) -> None:
        try:
            self._file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this object
        except OSError as error:
            raise temporary_file_error(error) from error
        self.keeps = False  # whether all of it stays: nothing is released
        weakref.finalize(self, self._file.close)

    def write(self, values: NDArray[Any]) -> None:
        """Append the bytes of an array; raise `TraceError` if the file cannot be written."""
        try:
            self._file.write(np.ascontiguousarray(values).data)
        except OSError as error:
            raise temporary_file_error(error) from error

    def flush(self) -> None:
        """Flush the buffer of the file; raise `TraceError` if the file cannot be written."""
        try:
            self._file.flush()
        except OSError as error:
            raise temporary_file_error(error) from error

    def read(self, dtype: Any, first: int, count: int) -> NDArray[Any]:
        """Return `count` values of a flushed file, beginning with number `first`."""
        size = np.dtype(dtype).itemsize
        return np.frombuffer(os.pread(self._file.fileno(), count * size, first * size), dtype)

    def forget(self, begin: int, end: int) -> int:
        """Release the whole pages in bytes `begin` to `end`, if the system can; return where the last one ends."""
        begin, end = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
        if begin < end and not self.keeps and (fallocate := _fallocate()) is not None:
            fallocate(self._file.fileno(), _PUNCH_HOLE | _KEEP_SIZE, begin, end - begin)
        return max(begin, end)

    def mapped(self, dtype: Any, count: int) -> NDArray[Any]:
        """Return all `count` values of the file, mapped into memory; the mapping may outlive this object."""
        self.flush()
        if not count:
            return np.empty(0, dtype)
        values = np.memmap(self._file, dtype, mode="r", shape=(count,))
        # joblib passes maps to other processes by file name; on Linux, an open file without one has this path.
        where = f"/proc/{os.getpid()}/fd/{self._file.fileno()}"
        if os.path.exists(where):
            vars(values).update(filename=where, file=self)
        return values


@cache
def _fallocate() -> Any:
    """Return Linux's ``fallocate``, which the standard library lacks, or None."""
    if not sys.platform.startswith("linux") or ctypes.sizeof(ctypes.c_long) != 8:
        return None
    found = getattr(ctypes.CDLL(None), "fallocate", None)
    if found is not None:
        found.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return found


def temporary_file_error(error: OSError) -> TraceError:
    """Return the error for a temporary file that cannot be written."""
    try:
        where = f"{tempfile.gettempdir()}: "
    except OSError:
        where = ""  # there is no temporary folder at all, as the error says
    return TraceError(f"{where}the temporary folder (TMPDIR) cannot be written: {error.strerror or error}")


class _Cursor:
    """Reads a flushed file from value `first` on, and gives back the space of what has been read."""

    def __init__(self, file: TemporaryFile, dtype: np.dtype[Any], first: int) -> None:
        self._file, self._dtype = file, dtype
        self._at = first
        self._forgotten = first * dtype.itemsize

    def read(self, count: int) -> NDArray[Any]:
        values = self._file.read(self._dtype, self._at, count)
        self._at += count
        # The columns take over the released pages of the system's cache: fresh ones would cost more than filling them.
        if self._at * self._dtype.itemsize - self._forgotten >= _FORGET_BYTES:
            self._forgotten = self._file.forget(self._forgotten, self._at * self._dtype.itemsize)
        return values


class _SortedRun:
    """One sorted run in the files of `SpilledRuns`, read window by window."""

    def __init__(self, files: SpilledRuns, first_key: int, row: int, count: int, word: int) -> None:
        self.first_key = first_key
        self.unread = count
        self._words_of = files.count_words
        self._rows, self._words = _Cursor(files.rows, files.dtype, row), _Cursor(files.words, _WORD_TYPE, word)
        self.window: Rows = np.empty(0, files.dtype)

    def fill(self, count: int) -> None:
        """Read on until the window has more than half of `count` rows, or the run ends."""
        if len(self.window) > count // 2 or not self.unread:
            return
        more = self._rows.read(min(count - len(self.window), self.unread))
        self.unread -= len(more)
        self.window = join_rows([self.window, more]) if len(self.window) else more

    def take(self, count: int) -> tuple[Rows, Words]:
        rows, self.window = self.window[:count], self.window[count:]
        return rows, self._words.read(int(self._words_of(rows).sum()))


class SpilledRuns:
    """Sorted runs in temporary files, which can be merged once.

    Parameters
    ----------
    dtype : numpy.dtype
        Type of the rows; they are sorted by its field ``key``.
    ignored_bits : int
        Lowest bits of the key that do not take part in the order.
    sort : callable
        Sorts rows with their words, as `sort_rows` does.
    count_words : callable
        Returns the number of words of each row.
    """

    def __init__(
        self,
        dtype: np.dtype[Any] = ROW_TYPE,
        *,
        ignored_bits: int = 0,
        sort: Callable[[Rows, Words, Scratch], tuple[Rows, Words]] = sort_rows,
        count_words: Callable[[Rows], NDArray[np.int64]] = count_words,
    ) -> None:
        self.dtype, self.sort, self.count_words = dtype, sort, count_words
        self._ignored_mask = (1 << ignored_bits) - 1
        self.rows, self.words = TemporaryFile(), TemporaryFile()
        self._runs: list[_SortedRun] = []
        self._row = self._word = 0

    def append(self, rows: Rows, words: Words) -> None:
        """Append a run: sorted rows, and their words."""
        self.append_parts([(rows, words)])

    def append_parts(self, parts: Iterable[tuple[Rows, Words]]) -> None:
        """Append a run that comes in parts: sorted rows, and their words."""
        row, word, first_key = self._row, self._word, 0
        for rows, words in parts:
            if len(rows):
                first_key = first_key if self._row > row else self._key(rows, 0)
                self.rows.write(rows)
                self.words.write(words)
                self._row += len(rows)
                self._word += len(words)
        if self._row > row:
            self._runs.append(_SortedRun(self, first_key, row, self._row - row, word))

    def _key(self, rows: Rows, row: int) -> int:
        return int(rows["key"][row]) & ~self._ignored_mask

    def flush(self) -> None:
        """Flush the files, so that they can be read; raise `TraceError` if they cannot be written."""
        self.rows.flush()
        self.words.flush()

    def keep(self) -> None:
        """Keep the runs in the files when they are merged, so that parts of them can still be read."""
        self.rows.keeps = self.words.keeps = True

    def merged(self, window: int, scratch: Scratch) -> Iterator[tuple[Rows, Words]]:
        """Yield all rows and words in order, with about `window` rows in memory; each part is valid until the next."""
        self.flush()
        waiting = sorted(enumerate(self._runs), key=lambda run: run[1].first_key, reverse=True)
        self._runs = []  # not kept here, since a run keeps its last window
        opened: list[tuple[int, _SortedRun]] = []
        while opened or waiting:
            # A run has no window before its first key is due, so that the others can have large ones.
            keys = [self._key(run.window, 0) for _, run in opened] or [waiting[-1][1].first_key]
            while waiting and waiting[-1][1].first_key <= min(keys):
                opened.append(waiting.pop())
            opened.sort()
            for _, run in opened:
                run.fill(max(window // len(opened), 1))
            runs = [run for _, run in opened]
            yield from self._merge_some(runs, waiting[-1][1].first_key if waiting else None, scratch)
            for _, run in opened:
                run.fill(1)
            opened = [(i, run) for i, run in opened if len(run.window)]

    def _merge_some(
        self, runs: list[_SortedRun], horizon: int | None, scratch: Scratch
    ) -> Iterator[tuple[Rows, Words]]:
        """Yield the rows with keys below all unread ones, or else all rows of the lowest key."""
        bounds = [self._key(run.window, -1) for run in runs if run.unread]
        bounds += [] if horizon is None else [horizon]
        cut = min(bounds, default=None)
        counts = [len(r.window) if cut is None else int(np.searchsorted(r.window["key"], cut)) for r in runs]
        if any(counts):
            parts = [run.take(count) for run, count in zip(runs, counts, strict=True) if count]
            rows, words = zip(*parts, strict=True)
            yield parts[0] if len(parts) == 1 else self.sort(join_rows(rows), np.concatenate(words), scratch)
            return
        assert cut is not None
        # A window is full of one key, and more rows of it follow: yield one run after the other, however long.
        for run in runs:
            size = max(len(run.window), 1)
            while len(run.window) and self._key(run.window, 0) == cut:
                yield run.take(int(np.searchsorted(run.window["key"], cut + self._ignored_mask, side="right")))
                run.fill(size)
