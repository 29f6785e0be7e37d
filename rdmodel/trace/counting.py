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
from rdmodel.trace.trace import Trace, locate_block
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
    source, first = locate_block(trace, block)
    warps = trace.launch.block_warps
    counts = np.zeros((3, len(L1_ACCESSES)), np.int64)
    other = barriers = 0
    for chunk in _chunks(trace, source, first, warps, line, sector, request_bytes):
        n = chunk.n
        op, count, gaps = chunk.op[:n], chunk.count[:n].astype(np.int64), chunk.gap[:n]
        place = _CLASS_OF[chunk.flags[:n] & (LOCAL | PASSES_L1), op]
        seen = (place >= 0) & (count > 0)
        sectors = np.zeros(n + 1, np.int64)
        np.cumsum(count, out=sectors[1:])
        bits = np.concatenate([[0], np.cumsum(np.bitwise_count(chunk.masks[: chunk.used]), dtype=np.int64)])
        each = bits[sectors[1:]] - bits[sectors[:-1]]
        for row, weight in enumerate((np.ones(n, np.int64), count, each)):
            counts[row] += np.bincount(place[seen], weight[seen], len(L1_ACCESSES)).astype(np.int64)
        other += int(gaps.sum())
        barriers += int(np.count_nonzero(op == Op.BARRIER))
    constants, replays = _count_constants(trace, block, source)
    requests, lookups, sectors_of = (dict(zip(L1_ACCESSES, map(int, row), strict=True)) for row in counts)
    known = trace.block_work(block)
    if known is None:
        instructions = {**requests, "load_constant": constants, "barrier": barriers, "other": other}
        known = Work(blocks=1, warps=warps, instructions=instructions, has_arithmetic=False, has_shared=False)
    return replace(known, requests=requests, tag_lookups=lookups, sectors=sectors_of, constant_replays=replays)


def _chunks(
    trace: Trace, source: Columns | Program, first: int, warps: int, line: int, sector: int, request_bytes: int
) -> Iterator[Chunk]:
    """Yield all instructions of a block, coalesced; every yielded chunk is the same object, refilled."""
    chunk = Chunk(details=True, sector=sector)
    if isinstance(source, Columns):
        # Coalescing handles one instruction at a time, so the block is read as one long warp.
        ends = source.warp_start[[first, first + warps]]
        source, first, warps = replace(source, warp_start=ends), 0, 1
    for warp in range(warps):
        stream = WarpStream(source, first + warp, line, StoreRule.MACHINE, trace.pages, request_bytes, _TEXTURES)
        more = True
        while more:
            more = stream.fill(chunk)
            yield chunk


def _count_constants(trace: Trace, block: int, source: Columns | Program) -> tuple[int, int]:
    """Return the number of loads from constant memory, and of their additional passes."""
    if not isinstance(source, Columns):
        loads = replays = 0
        for segment in source:
            at = np.flatnonzero(segment.space == Space.CONSTANT)
            active = (segment.mask[:, at, None] >> np.arange(WARP, dtype=np.uint32) & 1).astype(np.bool_)
            words = np.where(active, segment.base[:, at] // _WORD, -1)
            loads += segment.trips * int(active.any(axis=2).sum())
            replays += segment.trips * _additional(words.reshape(-1, WARP))
        return loads, replays
    loads = replays = 0
    for _, columns in split_block(trace, block):
        at = np.flatnonzero(columns.space == Space.CONSTANT)
        words = np.full((len(at), WARP), -1, np.int64)
        start = columns.address_start[at]
        lanes = columns.address_start[at + 1] - start
        row = np.repeat(np.arange(len(at)), lanes)
        lane = np.arange(len(row)) - np.repeat(np.cumsum(lanes) - lanes, lanes)
        words[row, lane] = columns.addresses[start[row] + lane] // _WORD
        loads += len(at)
        replays += _additional(words)
    return loads, replays


def _additional(words: NDArray[np.int64]) -> int:
    """Return the number of distinct words of all rows beyond the first of each; -1 is no word."""
    ordered = np.sort(words, axis=1)
    fresh = (ordered[:, 1:] != ordered[:, :-1]) & (ordered[:, :-1] >= 0)
    return int(fresh.sum())
