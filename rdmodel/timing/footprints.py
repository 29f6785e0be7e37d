"""Find the distinct pieces of global memory that blocks read and write, and where in its program a block reads each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import ArrayInfo, Columns, Op, Program, Space, Trace
from rdmodel.trace.coalescing import LOCAL, Chunk, StoreRule, WarpStream, open_warps
from rdmodel.trace.moved import segments_of
from rdmodel.trace.splitting import split_block
from rdmodel.trace.trace import locate_block

INSTRUCTIONS_AT_A_TIME, PIECES_AT_A_TIME = 1 << 12, 1 << 15
"""Instructions of a warp that are coalesced at a time, and room for their pieces."""

MANY_PIECES = 1 << 9
"""Pieces of one warp from which on those that it accesses again are left out at once."""

MOST_PENDING = 1 << 20
"""Pieces of parts of a block, some of them the same, that are held before they are united."""

_NOTHING = np.zeros(0, np.int64)


class Footprint(NamedTuple):
    """The distinct pieces of global memory that a block reads, and those that it writes, sorted.

    `places` are those of the first read of each piece, and `lasts` those of the last one, as numbers of memory
    instructions of a warp.
    """

    reads: NDArray[np.int64]
    writes: NDArray[np.int64]
    places: NDArray[np.int64]
    lasts: NDArray[np.int64]


class Footprints:
    """The footprints of the blocks of a trace in pieces of `unit` bytes, a power of two; each block is made once.

    It takes time O(instructions of the block), and memory O(distinct pieces). `instructions` counts the memory
    instructions of warps in all blocks that were made.
    """

    def __init__(self, trace: Trace, unit: int) -> None:
        self.trace, self.unit = trace, unit
        self.known: dict[int, Footprint] = {}
        self.instructions = 0
        self._chunk = Chunk(INSTRUCTIONS_AT_A_TIME, PIECES_AT_A_TIME, details=True)

    def of(self, block: int) -> Footprint:
        """Return the footprint of a block; raise `TraceError` if the trace does not hold it."""
        if block not in self.known:
            self.known[block] = self._find(block)
        return self.known[block]

    def held(self, pieces: NDArray[np.int64], block: int) -> int:
        """Return how many of some pieces a block reads; 0 if there is no such block."""
        if block < 0 or not len(pieces):
            return 0
        return len(np.intersect1d(pieces, self.of(block).reads, assume_unique=True))

    def read_of(self, array: ArrayInfo) -> list[int]:
        """Return how many pieces of an array each block reads that was made."""
        ends = array.base // self.unit, -(-(array.base + array.bytes) // self.unit)
        return [int(np.diff(np.searchsorted(each.reads, ends))[0]) for each in self.known.values()]

    def _find(self, block: int) -> Footprint:
        source, first = locate_block(self.trace, block)
        parts = _Parts()
        if _has_textures(source, first, self.trace.launch.block_warps):
            # Streams leave out textures, which have a cache of their own; but they are read through the L2.
            self._read_lanes(block, parts)
        else:
            for stream in open_warps(self.trace, source, first, self.unit, StoreRule.MACHINE):
                self._read_warp(stream, parts)
        return parts.union()

    def _read_warp(self, stream: WarpStream, parts: _Parts) -> None:
        """Add the pieces that a warp accesses."""
        chunk, row, more = self._chunk, 0, True
        while more:
            more = stream.fill(chunk)
            count = chunk.count[: chunk.n]
            op = np.repeat(chunk.op[: chunk.n], count)
            rows = np.repeat(np.arange(row, row + chunk.n), count)
            pieces = chunk.lines[: chunk.used]
            outside = np.repeat(chunk.flags[: chunk.n] & LOCAL == 0, count)
            loads = outside & (op != int(Op.STORE))
            parts.add(pieces[loads], rows[loads], pieces[outside & (op != int(Op.LOAD))])
            row += chunk.n
        self.instructions += row

    def _read_lanes(self, block: int, parts: _Parts) -> None:
        """Add the pieces that the lanes of a block access, instruction by instruction."""
        seen: dict[int, int] = {}
        for first, columns in split_block(self.trace, block):
            lanes = np.diff(columns.address_start)
            behind = np.isin(columns.space, (int(Space.GLOBAL), int(Space.TEXTURE)))
            pieces = columns.addresses // self.unit
            loads = np.repeat(behind & (columns.op != int(Op.STORE)), lanes)
            stores = np.repeat(behind & (columns.op != int(Op.LOAD)), lanes)
            lengths = np.diff(columns.warp_start)
            self.instructions += len(columns)
            begins = np.array([seen.get(first + warp, 0) for warp in range(len(lengths))], np.int64)
            rows = np.arange(len(columns)) - np.repeat(columns.warp_start[:-1] - begins, lengths)
            parts.add(pieces[loads], np.repeat(rows, lanes)[loads], pieces[stores])
            seen.update({first + warp: int(n) for warp, n in enumerate(begins + lengths)})


class _Parts:
    """The footprints of parts of a block, of which those that are pending are not united."""

    def __init__(self) -> None:
        self._parts: list[Footprint] = []
        self._pending = 0

    def add(self, reads: NDArray[np.int64], places: NDArray[np.int64], writes: NDArray[np.int64]) -> None:
        """Add the pieces that one warp reads at ascending places, and those that it writes."""
        lasts = places
        if len(reads) > MANY_PIECES:
            backwards = np.unique(reads[::-1], return_index=True)[1]
            reads, firsts = np.unique(reads, return_index=True)
            places, lasts = places[firsts], places[::-1][backwards]
        self._parts.append(Footprint(reads, np.unique(writes), places, lasts))
        self._pending += len(reads) + len(self._parts[-1].writes)
        if self._pending > MOST_PENDING:
            # A long block accesses the same pieces again and again.
            self._parts, self._pending = [self.union()], 0

    def union(self) -> Footprint:
        """Return the footprint of all parts."""
        if not self._parts:
            return Footprint(_NOTHING, _NOTHING, _NOTHING, _NOTHING)
        reads, writes, places, lasts = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        order = np.lexsort((places, reads))
        distinct, firsts = np.unique(reads[order], return_index=True)
        lasts = np.maximum.reduceat(lasts[order], firsts) if len(firsts) else lasts
        return Footprint(distinct, np.unique(writes), places[order][firsts], lasts)


def _has_textures(source: Columns | Program, first: int, warps: int) -> bool:
    """Return whether an instruction of a block, whose first warp has the number `first`, accesses textures."""
    if isinstance(source, Columns):
        spaces = [source.space[source.warp_start.item(first) : source.warp_start.item(first + warps)]]
    else:
        spaces = [segment.space for segment in segments_of(source)]
    return any(bool((space == int(Space.TEXTURE)).any()) for space in spaces)
