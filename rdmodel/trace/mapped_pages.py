"""Pages of mapped files that have been read: given back, so that they do not add up in memory."""

from __future__ import annotations

import mmap
from collections.abc import Sequence

WINDOW = 32 << 20
"""Bytes of a trace's files that are in memory at a time, beside what was read since the last look."""

_BITS = 13
_AROUND = 1 << 16
"""What reading a byte may bring in: on Linux, all of the 64 KiB around it that the system's cache of files has."""


class Pages:
    """The pages of a trace's maps: those that were read are given back whenever `WINDOW` bytes may have come in.

    What is read again comes from the system's cache of files, or else from the disk. Where a system has no
    ``madvise``, nothing is given back; no value ever depends on it. Safe to call while another thread reads.
    """

    def __init__(self, maps: Sequence[mmap.mmap], window: int = WINDOW) -> None:
        self._maps = tuple(maps)
        self._window = window
        # Groups of 2^13 instructions and of 2^13 addresses that were read. A group of a column is at most 64 KiB
        # long, and lies in two times 64 KiB.
        self._rows: set[int] = set()
        self._lanes: set[int] = set()

    def __reduce__(self) -> tuple[type[Pages], tuple[tuple[()]]]:
        """Return how to make the pages of a copy, whose values lie in memory and not in files."""
        return Pages, ((),)

    def read(self, row: int, end: int, lane: int = 0, last: int = 0) -> None:
        """Take note that values ``row:end`` of all columns were read, and ``lane:last`` of the addresses."""
        self._rows.update(range(row >> _BITS, (end >> _BITS) + 1))
        self._lanes.update(range(lane >> _BITS, (last >> _BITS) + 1))
        if 2 * _AROUND * (len(self._rows) * len(self._maps) + len(self._lanes)) > self._window:
            self.give_back()

    def give_back(self) -> None:
        """Let go of every page that is in memory."""
        self._rows.clear()
        self._lanes.clear()
        advice = getattr(mmap, "MADV_DONTNEED", None)
        if advice is None:
            return
        for mapped in self._maps:
            mapped.madvise(advice)
