"""Warp instructions of any blocks and warps as records, with their addresses packed, and their order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import WARP, Op
from tracegen.formats.ordering._gather import permute

GAP = 255
"""Stands in the place of an `Op`: an instruction that does not access the memory that a trace is about."""

FIELDS = ("pc", "op", "space", "size", "gap", "needs", "loop_exit", "mask")
"""What `Gathering.add` wants per instruction, beside `addresses`."""

ROW = np.dtype(
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
LOOP_EXIT, PACKED, NARROW = 1, 2, 4
"""Flags: the latter two say how addresses are packed (`tracegen.formats.ordering._gather.pack`)."""

PACKED_WORDS = 2
STORED = tuple(name for name in FIELDS if name != "loop_exit")
ADDRESS = 8
FULL_ROW = ROW.itemsize + WARP * ADDRESS
"""Bytes that an instruction takes at most."""

Rows = NDArray[Any]
Words = NDArray[np.int64]
"""The addresses of rows, packed."""


def lanes_of(rows: Rows) -> NDArray[np.int64]:
    """Return how many addresses rows have."""
    lanes: NDArray[np.int64] = np.bitwise_count(rows["mask"]).astype(np.int64)
    lanes[rows["op"] == Op.BARRIER] = 0
    return lanes


def words_of(rows: Rows) -> NDArray[np.int64]:
    """Return how many words the addresses of rows take."""
    lanes, flags = lanes_of(rows), rows["flags"]
    words = np.where(flags & NARROW, 1 + lanes // 2, lanes)
    words[flags & PACKED != 0] = PACKED_WORDS
    return words


class Room:
    """Memory that is used again and again: fresh pages cost more than filling them."""

    def __init__(self) -> None:
        self._words: Words = np.empty(0, np.int64)

    def of(self, count: int) -> Words:
        """Return `count` words of any content; the last ones that were returned are no longer valid."""
        if len(self._words) < count:
            self._words = np.empty(count, np.int64)
        return self._words[:count]


def in_order(rows: Rows, words: Words, room: Room) -> tuple[Rows, Words]:
    """Return rows in the order of their keys, equal ones as they were, and their words likewise, perhaps in `room`."""
    key = rows["key"]
    if not (key[1:] < key[:-1]).any():
        return rows, words
    order = _order(key)
    start = np.concatenate([[0], np.cumsum(words_of(rows))])
    out = room.of(len(words))
    permute(words, start, order, out)
    return taken(rows, order), out


def taken(rows: Rows, order: NDArray[np.intp]) -> Rows:
    """Return ``rows[order]``."""
    # NumPy takes whole rows much faster as numbers than as records.
    numbers = np.ascontiguousarray(rows).view(np.int64).reshape(len(rows), -1)
    return np.take(numbers, order, axis=0).view(ROW).reshape(len(order))


def _order(key: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the stable order of keys: by 16 bits at a time if that is enough, which NumPy does by counting."""
    least, most = int(key.min()), int(key.max())
    if most - least >= 1 << 32:
        return np.argsort(key, kind="stable")
    digits = (key - least).astype(np.uint32)
    order = np.argsort(digits.astype(np.uint16), kind="stable")
    if most - least < 1 << 16:
        return order
    high = (digits >> 16).astype(np.uint16)
    return order[np.argsort(high[order], kind="stable")]
