"""Count the `Work` of the blocks of a trace: what the trace tells of them, and the requests of their accesses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace.cache_ops import CACHE_OPS, CacheOp
from rdmodel.trace.coalescing import LOCAL, PASSES_L1, SECTOR, WHOLE_WARP, Chunk, StoreRule, WarpStream
from rdmodel.trace.columns import Columns, Op, Program, Space
from rdmodel.trace.launch import WARP
from rdmodel.trace.splitting import split_block
from rdmodel.trace.trace import Trace
from rdmodel.trace.work import L1_ACCESSES, Work, no_work

_WORD = 4
"""Bytes that the constant cache serves to all lanes at once."""

_TEXTURES = np.zeros(len(Space) * CACHE_OPS, np.uint8)
_TEXTURES[CacheOp.TEX :: CACHE_OPS] = 1
"""Loads that the coalescing of `work_of_block` tells apart from other loads, as those that do not look into the L1."""

_CLASS_OF = np.full((LOCAL + PASSES_L1 + 1, len(Op)), -1)
"""Place in `L1_ACCESSES` of an access by `Chunk.flags`, of LOCAL and PASSES_L1, and by operation."""
for _name, _place in (
    ("load_global", (0, Op.LOAD)),
    ("store_global", (0, Op.STORE)),
    ("atomic_global", (0, Op.ATOMIC)),
    ("load_texture", (PASSES_L1, Op.LOAD)),
    ("load_local", (LOCAL, Op.LOAD)),
    ("store_local", (LOCAL, Op.STORE)),
):
    _CLASS_OF[_place] = L1_ACCESSES.index(_name)


SAMPLED_BLOCKS = 8
"""Blocks that `sample_work` counts by default."""


def count_work(
    trace: Trace,
    blocks: Sequence[int] | None = None,
    *,
    line: int = 128,
    sector: int = SECTOR,
    request_bytes: int = WHOLE_WARP,
) -> Work:
    """Return the work of some blocks of a trace: the sum of `work_of_block`; None: of all blocks that it holds."""
    chosen = trace.blocks if blocks is None else blocks
    assert chosen is not None
    total = no_work()
    for block in chosen:
        total += work_of_block(trace, int(block), line=line, sector=sector, request_bytes=request_bytes)
    return total


def work_of_block(
    trace: Trace, block: int, *, line: int = 128, sector: int = SECTOR, request_bytes: int = WHOLE_WARP
) -> Work:
    """Return the work of one block.

    Parameters
    ----------
    trace
        The trace. What it does not tell (`Trace.block_work`) is absent from the result: without arithmetic, all
        instructions between two accesses are of the class ``other``, and barriers are counted.
    block
        Id of the block.
    line, sector, request_bytes
        Bytes of a line and of a sector of the L1, and of the accesses that are coalesced together (powers of two):
        ``gpu.l1.line``, ``gpu.l1.sector`` and ``gpu.l1.request_bytes``.

    Raises
    ------
    TraceError
        If the trace does not hold the block.
    """
    warps, counts = trace.launch.block_warps, RequestCounts()
    content = None if trace.stored else trace.block(block)
    if content is None or isinstance(content, Columns):
        pieces = split_block(trace, block) if content is None else [(0, content)]
        for _, columns in pieces:
            for chunk in counted_chunks(columns, line, sector, request_bytes):
                counts.add(chunk)
            counts.add_constants(columns)
    else:
        chunk = Chunk(details=True, sector=_masked_sector(line, sector))
        for warp in range(warps):
            stream = WarpStream(content, warp, line, StoreRule.MACHINE, None, request_bytes, _TEXTURES)
            for filled in _fill(stream, chunk):
                counts.add(filled)
        counts.add_constants(content)
    return counts.work(warps, trace.block_work(block))


def sample_work(trace: Trace, blocks: Sequence[int], most: int = SAMPLED_BLOCKS, **l1: int) -> Work:
    """Return the work of some blocks, extrapolated from at most `most` of them, which are spread evenly.

    `l1` are the options of `work_of_block`. A trace that must execute its blocks in order is sampled at its beginning.
    """
    n = len(blocks)
    if n <= most:
        return count_work(trace, blocks, **l1)
    places = range(most) if not trace.any_order else sorted({i * (n - 1) // (most - 1) for i in range(most)})
    return count_work(trace, [blocks[place] for place in places], **l1).scaled(n)


class RequestCounts:
    """Counters of the requests of memory instructions, from chunks with details and sectors."""

    def __init__(self) -> None:
        self._counts = np.zeros((3, len(L1_ACCESSES)), np.int64)
        self._other = self._barriers = self._constants = self._replays = 0

    def add(self, chunk: Chunk) -> None:
        """Count the instructions of a chunk."""
        n = chunk.n
        op, count = chunk.op[:n], chunk.count[:n].astype(np.int64)
        place = _CLASS_OF[chunk.flags[:n] & (LOCAL | PASSES_L1), op]
        seen = (place >= 0) & (count > 0)
        ends = np.zeros(n + 1, np.int64)
        np.cumsum(count, out=ends[1:])
        sectors = np.zeros(chunk.used + 1, np.int64)
        np.cumsum(np.bitwise_count(chunk.masks[: chunk.used]), out=sectors[1:])
        each = sectors[ends[1:]] - sectors[ends[:-1]]
        for row, weight in enumerate((np.ones(n, np.int64), count, each)):
            self._counts[row] += np.bincount(place[seen], weight[seen], len(L1_ACCESSES)).astype(np.int64)
        self._other += int(chunk.gap[:n].sum(dtype=np.int64))
        self._barriers += int(np.count_nonzero(op == int(Op.BARRIER)))

    def add_constants(self, content: Columns | Program) -> None:
        """Count the loads from constant memory, which have no lines in a chunk."""
        parts = _constants_of_rows(content) if isinstance(content, Columns) else _constants_of_segments(content)
        for trips, words in parts:
            self._constants += trips * int((words >= 0).any(axis=1).sum())
            self._replays += trips * _additional(words)

    def work(self, warps: int, known: Work | None, blocks: int = 1) -> Work:
        """Return the work of the `blocks` blocks that were counted; `known` is what the trace tells of them."""
        requests, lookups, sectors = (dict(zip(L1_ACCESSES, map(int, row), strict=True)) for row in self._counts)
        if known is None:
            instructions = {
                **requests, "load_constant": self._constants, "barrier": self._barriers, "other": self._other
            }  # fmt: skip
            known = Work(blocks=blocks, warps=warps, instructions=instructions, has_arithmetic=False, has_shared=False)
        return replace(known, requests=requests, tag_lookups=lookups, sectors=sectors, constant_replays=self._replays)


def counted_chunks(columns: Columns, line: int, sector: int, request_bytes: int = WHOLE_WARP) -> Iterator[Chunk]:
    """Yield all instructions of columns as chunks for `RequestCounts`; each one is the same object, refilled.

    Coalescing handles one instruction at a time, so the columns are read as one long warp.
    """
    whole = replace(columns, warp_start=np.array([0, len(columns)]))
    stream = WarpStream(whole, 0, line, StoreRule.MACHINE, None, request_bytes, _TEXTURES)
    yield from _fill(stream, Chunk(details=True, sector=_masked_sector(line, sector)))


def _masked_sector(line: int, sector: int) -> int:
    """Return the bytes of a sector of which a line has 1 to 32."""
    return min(line, max(sector, line // 32))


def _fill(stream: WarpStream, chunk: Chunk) -> Iterator[Chunk]:
    more = True
    while more:
        more = stream.fill(chunk)
        yield chunk


def _constants_of_segments(program: Program) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the trips and the words of the loads from constant memory of each segment; -1 is no word."""
    for segment in program:
        at = np.flatnonzero(segment.space == int(Space.CONSTANT))
        if len(at):
            active = (segment.mask[:, at, None] >> np.arange(WARP, dtype=np.uint32) & 1).astype(np.bool_)
            yield segment.trips, np.where(active, segment.base[:, at] // _WORD, -1).reshape(-1, WARP)


def _constants_of_rows(columns: Columns) -> Iterator[tuple[int, NDArray[np.int64]]]:
    at = np.flatnonzero(columns.space == int(Space.CONSTANT))
    if len(at):
        words = np.full((len(at), WARP), -1, np.int64)
        start = columns.address_start[at]
        lanes = columns.address_start[at + 1] - start
        row = np.repeat(np.arange(len(at)), lanes)
        lane = np.arange(len(row)) - np.repeat(np.cumsum(lanes) - lanes, lanes)
        words[row, lane] = columns.addresses[start[row] + lane] // _WORD
        yield 1, words


def _additional(words: NDArray[np.int64]) -> int:
    """Return the number of distinct words of all rows beyond the first of each; -1 is no word."""
    ordered = np.sort(words, axis=1)
    fresh = (ordered[:, 1:] != ordered[:, :-1]) & (ordered[:, :-1] >= 0)
    return int(fresh.sum())
