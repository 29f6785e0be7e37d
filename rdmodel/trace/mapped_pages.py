"""Release the pages of mapped files after they were read, and say if a file is truncated while it is mapped.

Reading a page behind the end of its file ends the process with SIGBUS. `Pages` compares the sizes of the files with
those of the maps again and again and raises an error. For a page that is read before that, a handler of the signal
(`rdmodel.trace._truncation`) ends the process with the same message and status 2.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rdmodel.errors import TraceError, escape_unprintable
from rdmodel.trace import _truncation

WINDOW_BYTES = 32 << 20
"""Bytes of a trace's files that may be in memory at a time."""

_GROUP_BITS = 13
"""Values of a column are counted in groups of 2^13: the largest, of 8 bytes each, take 64 KiB."""

_READ_AROUND_BYTES = 1 << 16
"""Bytes that reading one byte may map: on Linux, all of the surrounding 64 KiB that are in the page cache."""


_READS_PER_CHECK = 16
"""Reports of read values after which the sizes of the files are compared."""


def watched(values: NDArray[Any], path: Path) -> NDArray[Any]:
    """Return values that are mapped from a file, of whose truncation a message will tell."""
    mapped = getattr(values, "_mmap", None)
    if mapped is not None and _truncation.install():
        place = _truncation.watch(mapped, escape_unprintable(str(path)).encode())
        weakref.finalize(mapped, _truncation.forget, place)
    return values


class Pages:
    """The pages of a trace's mapped files, released whenever readers may have mapped `window` bytes of them.

    `names` are those of the files, for messages. A page that is read again comes from the system's page cache, or else
    from the disk. On systems without ``madvise`` nothing is released; no value ever depends on it. Safe to call while
    another thread reads. Every method raises `TraceError` if a file has become shorter than its map.
    """

    def __init__(
        self, maps: Sequence[mmap.mmap], window: int = WINDOW_BYTES, names: Sequence[str] | None = None
    ) -> None:
        self._maps = tuple(maps)
        self._names = tuple(names or ())
        self._reads = 0
        self._window = window
        # Groups of instructions and of addresses that were read. A group of one column is at most 64 KiB long and need
        # not be aligned, so it lies in at most two aligned ranges of 64 KiB.
        self._rows: set[int] = set()
        self._lanes: set[int] = set()

    def __reduce__(self) -> tuple[type[Pages], tuple[tuple[()]]]:
        """Give a copy no pages: its values are in memory, not in mapped files."""
        return Pages, ((),)

    @property
    def mapped(self) -> bool:
        """True if there are mapped files."""
        return bool(self._maps)

    def read(self, row: int, end: int, lane: int = 0, last: int = 0) -> None:
        """Record that values ``row:end`` of all columns and ``lane:last`` of the addresses were read."""
        self._reads += 1
        if self._reads % _READS_PER_CHECK == 0:
            self.check()
        self._rows.update(range(row >> _GROUP_BITS, (end >> _GROUP_BITS) + 1))
        self._lanes.update(range(lane >> _GROUP_BITS, (last >> _GROUP_BITS) + 1))
        if 2 * _READ_AROUND_BYTES * (len(self._rows) * len(self._maps) + len(self._lanes)) > self._window:
            self.give_back()

    def check(self) -> None:
        """Raise `TraceError` if a file has become shorter than its map."""
        for mapped, name in zip(self._maps, self._names, strict=False):
            if mapped.size() < len(mapped):
                raise TraceError(f"{name}: was truncated while it was read")

    def give_back(self) -> None:
        """Release every page that is in memory."""
        self.check()
        self._rows.clear()
        self._lanes.clear()
        advice = getattr(mmap, "MADV_DONTNEED", None)
        if advice is None:
            return
        for mapped in self._maps:
            mapped.madvise(advice)
