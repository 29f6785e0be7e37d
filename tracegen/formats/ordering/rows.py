"""Represent warp instructions of any blocks and warps as records with packed addresses, and sort them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import WARP, Op
from tracegen.formats.ordering import _gather

NO_ACCESS_OP = 255
"""Stands in place of an `Op`: an instruction without an access to global, local, constant or texture memory."""

INSTRUCTION_FIELDS = ("pc", "op", "space", "size", "gap", "needs", "loop_exit", "mask")
"""Columns that `Gathering.add` takes per instruction, beside `addresses`; ``cache_op`` may be left out."""

ROW_TYPE = np.dtype(
    [
        ("key", "i8"),
        ("needs", "u8"),
        ("pc", "i4"),
        ("gap", "i4"),
        ("mask", "u4"),
        ("op", "u1"),
        ("space", "u1"),
        ("size", "u1"),
        ("flags", "u1"),
    ]
)
LOOP_EXIT_FLAG, REGULAR_FLAG, NARROW_FLAG = 1, 2, 4
"""Values of `flags`; the latter two say how addresses are packed (`tracegen.formats.ordering._gather.append_rows`)."""

CACHE_OP_SHIFT = 3
"""The first bit of the cache operator in `flags`, which takes the upper five bits."""

REGULAR_WORDS = 2
"""Words that evenly spaced addresses take: the first address and the step."""

ROW_FIELDS = tuple(name for name in INSTRUCTION_FIELDS if name != "loop_exit")
ADDRESS_BYTES = 8
_ROW_WORDS = ROW_TYPE.itemsize // ADDRESS_BYTES
_WINDOW_ROWS = 1 << 13
_WINDOW_WORDS = 1 << 15
"""Words of a row, and the rows and words that are in sorted order at a time; `WARP` words at least."""

MAX_ROW_BYTES = ROW_TYPE.itemsize + WARP * ADDRESS_BYTES
"""Bytes that an instruction takes at most, addresses included."""

Rows = NDArray[Any]
"""Records of `ROW_TYPE`, or of another type with a field ``key``."""

Words = NDArray[np.int64]
"""Packed addresses of rows, one row after the other."""


def count_lanes(rows: Rows) -> NDArray[np.int64]:
    """Return the number of addresses of each row."""
    lanes: NDArray[np.int64] = np.bitwise_count(rows["mask"]).astype(np.int64)
    lanes[rows["op"] == int(Op.BARRIER)] = 0
    return lanes


def count_words(rows: Rows) -> NDArray[np.int64]:
    """Return the number of words that the packed addresses of each row take."""
    lanes, flags = count_lanes(rows), rows["flags"]
    words = np.where(flags & NARROW_FLAG, 1 + lanes // 2, lanes)
    words[flags & REGULAR_FLAG != 0] = REGULAR_WORDS
    return words


class Scratch:
    """Memory that is used again and again, since fresh pages cost more than filling them."""

    def __init__(self) -> None:
        self._words: Words = np.empty(0, np.int64)

    def words(self, count: int) -> Words:
        """Return `count` uninitialised words; those of the previous call are no longer valid."""
        if len(self._words) < count:
            self._words = np.empty(count, np.int64)
        return self._words[:count]


def sort_rows(rows: Rows, words: Words, scratch: Scratch) -> tuple[Rows, Words]:
    """Return rows sorted by key, stable, and their words likewise; both may be in `scratch`."""
    return next(_sorted_windows(rows, words, scratch, len(rows), len(words)), (rows, words))


def sorted_windows(rows: Rows, words: Words, scratch: Scratch) -> Iterator[tuple[Rows, Words]]:
    """Yield rows sorted by key, stable, with their words, some at a time; each part is valid until the next."""
    return _sorted_windows(rows, words, scratch, _WINDOW_ROWS, _WINDOW_WORDS)


def _sorted_windows(
    rows: Rows, words: Words, scratch: Scratch, most_rows: int, most_words: int
) -> Iterator[tuple[Rows, Words]]:
    n, key = len(rows), rows["key"]
    if not (key[1:] < key[:-1]).any():
        yield rows, words
        return
    sizes = (_gather.COUNTS, n, n, min(n, most_rows) * _ROW_WORDS)  # 64 bits hold two numbers of an order
    counts, start, halves, numbers, out_words = np.split(scratch.words(sum(sizes) + most_words), np.cumsum(sizes))
    order, out_rows = halves.view(np.uint32), numbers.view(ROW_TYPE)
    rows = np.ascontiguousarray(rows)
    _gather.sort(rows, start, order, counts)
    first = 0
    while first < n:
        end, used = _gather.select(rows, words, start, order, first, out_rows, out_words)
        yield out_rows[: end - first], out_words[:used]
        first = end


def select_rows(rows: Rows, indices: NDArray[np.intp]) -> Rows:
    """Return ``rows[indices]``."""
    # NumPy copies whole rows much faster as numbers than as records.
    numbers = np.ascontiguousarray(rows).view(np.int64).reshape(len(rows), -1)
    return np.take(numbers, indices, axis=0).view(ROW_TYPE).reshape(len(indices))


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Return the rows of one part after the other; each part is contiguous in memory, and all have one type."""
    # NumPy copies whole rows much faster as bytes than as records.
    return np.concatenate([part.view(np.uint8) for part in parts]).view(parts[0].dtype)
