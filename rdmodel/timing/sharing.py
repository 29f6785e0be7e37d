"""Find the data that blocks of a launch read in common, from a few blocks and those before them in the grid.

Blocks share data with their neighbours in the dimensions of the grid. A kernel may also number its tiles in an order of
its own, as products of matrices do: then data that a block reads were read by another block not far before it, and the
blocks of a window are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rdmodel.timing.footprints import Footprint, Footprints

UNDER_WAY = 8
"""Memory instructions of a warp that may be under way at once, so that they wait for the same data together."""

REPEATED, NOTABLE = 2.0, 0.1
"""Readers of a piece, on average, from which on a window of blocks is looked at to find them, if such pieces are at
least this share of what a block reads."""

LEAST_WINDOW, LOOKED_AT = 16, 1 << 19
"""Blocks of a window, at least, and memory instructions of its blocks, at most, if it has more blocks."""

RECENT = 0.25
"""Share of a window, at its end, whose blocks tell how many pieces are new in a block of a wave that is under way."""

LAST = 3
"""Blocks at the end of a window whose pieces that are new in it are looked for in blocks before the window."""


class Shared(NamedTuple):
    """Pieces that a block shares with the block `lag` before it, and those of them that a wave before had, too.

    `together` of the pieces are first read at about the same place of the program by both. Of the blocks that run
    together, `readers` read a piece. These are means.
    """

    lag: int
    pieces: float
    together: float
    earlier: float
    readers: float = 1.0


class Sharing(NamedTuple):
    """The pieces that a block reads and writes, those that it shares, and the distinct pieces of a wave of blocks."""

    reads: float
    writes: float
    shared: Sequence[Shared]
    wave: float


def find_sharings(footprints: Footprints, places: Sequence[int], concurrent: int) -> list[Sharing]:
    """Return what blocks share of which `concurrent` run together: for the blocks `places`, or for a window of blocks.

    Beside what a block shares with its neighbours, it may read pieces of arrays that are too small for all blocks to
    have such pieces of their own. Then other blocks read them, too, and a window is looked at that ends at the place
    with most of them.
    """
    found, hidden = [], []
    for block in places:
        sharing, rest = _with_neighbours(footprints, block, concurrent)
        found.append(sharing)
        hidden.append(_repeated(footprints, rest) / max(1.0, sharing.reads))
    if max(hidden) < NOTABLE:
        return found
    window = share_in_window(footprints, places[int(np.argmax(hidden))], concurrent)
    return [_scaled(window, sharing) for sharing in found]


def _scaled(window: Sharing, own: Sharing) -> Sharing:
    """Return what blocks of a window share, for a block that reads and writes other numbers of pieces."""
    factor = own.reads / max(1.0, window.reads)
    shared = [
        each._replace(pieces=factor * each.pieces, together=factor * each.together, earlier=factor * each.earlier)
        for each in window.shared
    ]
    return Sharing(own.reads, own.writes, shared, factor * window.wave)


def _lags(grid: Sequence[int], block: int) -> dict[int, tuple[int, int]]:
    """Return the distance to the block before in each dimension: extent of the dimension, and blocks before in it."""
    x, y, z = grid
    lags = {1: (x, block % x), x: (y, block // x % y), x * y: (z, block // (x * y))}
    return {lag: lags[lag] for lag in sorted(lags) if lag <= block}


def _with_neighbours(footprints: Footprints, block: int, concurrent: int) -> tuple[Sharing, NDArray[np.int64]]:
    """Return what a block shares with those before it in each dimension, each piece once, and the pieces left over."""
    own, found, repeated = footprints.of(block), list[Shared](), 0.0
    left, at = own.reads, own.places
    for lag, (extent, before) in _lags(footprints.trace.launch.grid, block).items():
        if not len(left):
            break
        each, pieces, left, at = _shared_with(footprints, block, lag, concurrent, left, at)
        last = min(before, max(1, concurrent // lag - 1))  # blocks before, in this dimension and this wave
        share = footprints.held(pieces, block - lag * last) / max(1, len(pieces))
        sharers = 1 + share * (min(extent, max(1.0, concurrent / lag)) - 1)
        found.append(each._replace(readers=sharers))
        repeated += len(pieces) / sharers
    wave = concurrent * (len(left) + len(own.writes) + repeated)
    return Sharing(len(own.reads), len(own.writes), found, wave), left


def _shared_with(
    footprints: Footprints, block: int, lag: int, concurrent: int, left: NDArray[np.int64], at: NDArray[np.int64]
) -> tuple[Shared, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return which of the pieces `left` of a block, read at `at`, another block reads, and those that are left then."""
    other = footprints.of(block - lag)
    pieces, mine, theirs = np.intersect1d(left, other.reads, assume_unique=True, return_indices=True)
    together = int(np.count_nonzero(np.abs(at[mine] - other.places[theirs]) <= UNDER_WAY))
    earlier = footprints.held(pieces, block - lag * -(-concurrent // lag))
    return Shared(lag, len(pieces), together, earlier), pieces, np.delete(left, mine), np.delete(at, mine)


def _repeated(footprints: Footprints, pieces: NDArray[np.int64]) -> int:
    """Return how many pieces are in arrays that are too small for all blocks to read as many pieces of their own."""
    launch, unit = footprints.trace.launch, footprints.unit
    found = 0
    for array in launch.arrays:
        first, end = array.base // unit, -(-(array.base + array.bytes) // unit)
        read = int(np.diff(np.searchsorted(pieces, (first, end)))[0])
        if read * launch.blocks >= REPEATED * (end - first):
            found += read
    return found


def share_in_window(footprints: Footprints, last: int, concurrent: int) -> Sharing:
    """Return what blocks share on average with earlier ones of a window that ends with the block `last`.

    A piece counts for the latest of the blocks that have read it before.
    """
    blocks = _window(footprints, last, concurrent)
    size = len(blocks)
    pieces, together, new = np.zeros(size), np.zeros(size), np.zeros(size)
    seen, before = _LatestReads(), list[list[Shared]]()
    for number, block in enumerate(blocks):
        own = footprints.of(block)
        lags, mine, near = seen.add(number, own)
        pieces += np.bincount(lags, minlength=size)
        together += np.bincount(lags[near], minlength=size)
        new[number] = len(own.reads) - len(lags)
        if number >= size - LAST:
            before.append(_before_window(footprints, block, size, concurrent, mine))
    # Only size - lag blocks have another one so far before them.
    pairs = np.maximum(1, size - np.arange(size))
    # Of the readers of a piece, all but the first one read what another block has read.
    reads = float(np.mean([len(footprints.of(block).reads) for block in blocks]))
    readers = reads / max(1.0, reads - float((pieces / pairs).sum()))
    shared = [
        Shared(lag, float(pieces[lag] / pairs[lag]), float(together[lag] / pairs[lag]), 0.0, min(size, readers))
        for lag in range(1, size)
        if pieces[lag]
    ]
    shared += [
        Shared(each.lag, *(float(value) / len(before) for value in (each.pieces, each.together, each.earlier)))
        for found in before
        for each in found
    ]
    writes = float(np.mean([len(footprints.of(block).writes) for block in blocks]))
    later = concurrent - size
    wave = float(new.sum()) + later * float(new[-max(1, int(RECENT * size)) :].mean()) + concurrent * writes
    return Sharing(reads, writes, shared, wave)


def _before_window(
    footprints: Footprints, block: int, size: int, concurrent: int, known: NDArray[np.intp]
) -> list[Shared]:
    """Return what a block at the end of a window of `size` blocks shares with its neighbours before the window.

    `known` are the places of the pieces that a block of the window has read before.
    """
    own, found = footprints.of(block), []
    left, at = np.delete(own.reads, known), np.delete(own.places, known)
    for lag in _lags(footprints.trace.launch.grid, block):
        if lag >= size and len(left):
            each, _, left, at = _shared_with(footprints, block, lag, concurrent, left, at)
            found.append(each)
    return found


def _window(footprints: Footprints, last: int, concurrent: int) -> range:
    """Return a window of at most one wave: shorter if its blocks have many instructions, but not very short.

    Its blocks are ascending, since those of some traces are executed in this order.
    """
    each = footprints.instructions / max(1, len(footprints.known))
    size = min(concurrent, max(LEAST_WINDOW, int(LOOKED_AT / max(1.0, each))))
    return range(max(0, last - size + 1), last + 1)


class _LatestReads:
    """The blocks that have read each piece most recently, and the places of these reads in their programs."""

    def __init__(self) -> None:
        self._pieces = np.zeros(0, np.int64)
        self._blocks = np.zeros(0, np.int64)
        self._places = np.zeros(0, np.int64)

    def add(self, block: int, own: Footprint) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.bool_]]:
        """Add the reads of a block; return for each that is not new how far back it was, its place, and if together."""
        _, mine, theirs = np.intersect1d(own.reads, self._pieces, assume_unique=True, return_indices=True)
        lags = block - self._blocks[theirs]
        near = np.abs(own.places[mine] - self._places[theirs]) <= UNDER_WAY
        kept = np.ones(len(self._pieces), np.bool_)
        kept[theirs] = False
        pieces = np.concatenate([self._pieces[kept], own.reads])
        order = np.argsort(pieces, kind="stable")
        self._pieces = pieces[order]
        self._blocks = np.concatenate([self._blocks[kept], np.full(len(own.reads), block)])[order]
        self._places = np.concatenate([self._places[kept], own.places])[order]
        return lags, mine, near
