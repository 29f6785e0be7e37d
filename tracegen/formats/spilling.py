"""Sorted runs of rows in temporary files, and their merging (Knuth, *The Art of Computer Programming* 3, 5.4)."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from tracegen.formats.rows import ROW, Room, Rows, Words, in_order, words_of


class TemporaryFile:
    """A file without a name: it is gone when nothing uses it any more, however the process ends."""

    def __init__(self) -> None:
        try:
            self._file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this object
        except OSError as error:
            raise no_room(error) from None
        weakref.finalize(self, self._file.close)

    def write(self, values: NDArray[Any]) -> None:
        """Append the bytes of an array; raise `TraceError` if there is no room."""
        try:
            self._file.write(np.ascontiguousarray(values).data)
        except OSError as error:
            raise no_room(error) from None

    def flush(self) -> None:
        """Have everything written that was; raise `TraceError` if there is no room."""
        try:
            self._file.flush()
        except OSError as error:
            raise no_room(error) from None

    def read(self, dtype: Any, first: int, count: int) -> NDArray[Any]:
        """Return `count` values of a flushed file from the one numbered `first`."""
        size = np.dtype(dtype).itemsize
        return np.frombuffer(os.pread(self._file.fileno(), count * size, first * size), dtype)

    def mapped(self, dtype: Any, count: int) -> NDArray[Any]:
        """Return all `count` values of the file, mapped into memory; they outlive this object."""
        self.flush()
        return np.memmap(self._file, dtype, mode="r", shape=(count,)) if count else np.empty(0, dtype)


def no_room(error: OSError) -> TraceError:
    """Return the error for a temporary file that cannot be written."""
    try:
        where = f"{tempfile.gettempdir()}: "
    except OSError:
        where = ""  # there is no folder at all, which the error says
    return TraceError(f"{where}the temporary folder (TMPDIR) cannot be written: {error.strerror or error}")


class _Run:
    """A sorted part of the rows in the spill files, read from its start by windows."""

    def __init__(self, spill: Spill, first_key: int, row: int, end: int, word: int) -> None:
        self.first_key = first_key
        self._spill = spill
        self._row, self._end, self._word = row, end, word
        self.window: Rows = np.empty(0, ROW)

    def fill(self, count: int) -> None:
        """Have at least half of `count` rows in the window, if there are as many."""
        if len(self.window) > count // 2 or not self.unread:
            return
        more = self._spill.rows.read(ROW, self._row, min(count - len(self.window), self.unread))
        self._row += len(more)
        self.window = np.concatenate([self.window, more]) if len(self.window) else more

    @property
    def unread(self) -> int:
        return self._end - self._row

    def take(self, count: int) -> tuple[Rows, Words]:
        rows, self.window = self.window[:count], self.window[count:]
        size = int(words_of(rows).sum())
        words = self._spill.words.read(np.int64, self._word, size)
        self._word += size
        return rows, words


class Spill:
    """Sorted runs in temporary files, and their merging."""

    def __init__(self) -> None:
        self.rows, self.words = TemporaryFile(), TemporaryFile()
        self._runs: list[_Run] = []
        self._row = self._word = 0

    def append(self, rows: Rows, words: Words) -> None:
        """Take a run: rows in order, and their words."""
        if len(rows):
            self._runs.append(_Run(self, int(rows["key"][0]), self._row, self._row + len(rows), self._word))
            self.rows.write(rows)
            self.words.write(words)
            self._row += len(rows)
            self._word += len(words)

    def merged(self, window: int, room: Room) -> Iterator[tuple[Rows, Words]]:
        """Yield all rows and words in order; about `window` rows are in memory at a time.

        What was yielded is no longer valid when the next is.
        """
        self.rows.flush()
        self.words.flush()
        waiting = sorted(enumerate(self._runs), key=lambda run: run[1].first_key, reverse=True)
        opened: list[tuple[int, _Run]] = []
        while opened or waiting:
            # Runs whose turn has not come have no window, so that the others can have large ones.
            keys = [int(run.window["key"][0]) for _, run in opened] or [waiting[-1][1].first_key]
            while waiting and waiting[-1][1].first_key <= min(keys):
                opened.append(waiting.pop())
            opened.sort()
            for _, run in opened:
                run.fill(max(window // len(opened), 1))
            runs = [run for _, run in opened]
            yield from _merge_some(runs, waiting[-1][1].first_key if waiting else None, room)
            for _, run in opened:
                run.fill(1)
            opened = [(i, run) for i, run in opened if len(run.window)]


def _merge_some(runs: list[_Run], horizon: int | None, room: Room) -> Iterator[tuple[Rows, Words]]:
    """Yield the rows that are known to come first: all with keys below what is not yet read, at least one key."""
    bounds = [int(run.window["key"][-1]) for run in runs if run.unread]
    bounds += [] if horizon is None else [horizon]
    cut = min(bounds, default=None)
    counts = [len(r.window) if cut is None else int(np.searchsorted(r.window["key"], cut)) for r in runs]
    if any(counts):
        parts = [run.take(count) for run, count in zip(runs, counts, strict=True) if count]
        rows, words = zip(*parts, strict=True)
        yield parts[0] if len(parts) == 1 else in_order(np.concatenate(rows), np.concatenate(words), room)
        return
    assert cut is not None
    for run in runs:  # a whole window of one key, which goes on: one run after the other, however long
        size = max(len(run.window), 1)
        while len(run.window) and run.window["key"][0] == cut:
            yield run.take(int(np.searchsorted(run.window["key"], cut, side="right")))
            run.fill(size)
