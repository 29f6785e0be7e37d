"""Split the blocks of a trace into pieces of bounded size, for code that reads a trace once in little memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rdmodel.trace.columns import EVERY_ITERATION, Columns, Program, Segment, slice_rows, slice_warps
from rdmodel.trace.expansion import expand
from rdmodel.trace.launch import WARP
from rdmodel.trace.trace import Trace, locate_block

ADDRESSES_PER_PIECE = 1 << 18
"""Default size of a piece in lane addresses: 2 MiB of them."""


def split_block(trace: Trace, block: int, limit: int = ADDRESSES_PER_PIECE) -> Iterator[tuple[int, Columns]]:
    """Yield a block's instructions in order as (first warp, columns of that warp and perhaps the next ones).

    A block of at most `limit` lane addresses is one piece. A larger one is split first into warps, then along the
    instructions of a warp, so that consecutive pieces may belong to one warp. A piece exceeds `limit` only if one
    iteration of a segment's body does. The pages of mapped columns may be released between two pieces. Raises
    `TraceError` if the trace does not hold the block.
    """
    source, first = locate_block(trace, block)
    warps = trace.launch.block_warps
    if not isinstance(source, Columns):
        yield from _cut_program(source, warps, limit)
        return
    for warp, row, end in _cut_columns(source, first, warps, limit):
        if warp is None:
            yield 0, slice_warps(source, first, first + warps)
        else:
            yield warp, slice_rows(source, row, end)
        if trace.pages is not None:
            trace.pages.read(row, end, source.address_start.item(row), source.address_start.item(end))


def _cut_columns(columns: Columns, first_warp: int, warps: int, limit: int) -> Iterator[tuple[int | None, int, int]]:
    """Yield pieces as (warp, first instruction, end); the warp is None if the piece is the whole block."""
    first, end = (columns.warp_start.item(warp) for warp in (first_warp, first_warp + warps))
    lanes = columns.address_start.item(end) - columns.address_start.item(first)
    if lanes <= limit and end - first <= limit:
        yield None, first, end
        return
    rows = max(1, limit // WARP)
    for warp in range(warps):
        first, end = (columns.warp_start.item(first_warp + warp + i) for i in (0, 1))
        for row in range(first, end, rows):
            yield warp, row, min(row + rows, end)


def _cut_program(program: Program, warps: int, limit: int) -> Iterator[tuple[int, Columns]]:
    if sum(segment.trips * int(_lanes(segment).sum()) for segment in program) <= limit:
        yield 0, expand(program, warps)
        return
    for warp in range(warps):
        for part in _cut_warp(program, warp, limit):
            yield warp, expand(part, 1)


def _cut_warp(program: Program, warp: int, limit: int) -> Iterator[Program]:
    part: list[Segment] = []
    room = limit
    for segment in program:
        per_trip = int(_lanes(segment)[warp].sum())
        first = 0
        while per_trip and first < segment.trips:
            if part and room < per_trip:
                yield part
                part, room = [], limit
            end = min(segment.trips, first + max(1, room // per_trip))
            part.append(_narrow(segment, warp, first, end))
            room -= (end - first) * per_trip
            first = end
    if part:
        yield part


def _lanes(segment: Segment) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return the active lanes per iteration, of shape (warps, body)."""
    return np.bitwise_count(segment.mask).astype(np.int64)


def _narrow(segment: Segment, warp: int, first: int, end: int) -> Segment:
    """Return iterations ``first:end`` of one warp of a segment."""
    only = slice(warp, warp + 1)
    return replace(
        segment,
        trips=end - first,
        base=segment.base[only] + first * segment.step[:, None],
        needs=segment.needs[only],
        mask=segment.mask[only],
        loop_exit=segment.loop_exit * ((segment.loop_exit == EVERY_ITERATION) | (end == segment.trips)),
    )
