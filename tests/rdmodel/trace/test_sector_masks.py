"""Masks of sectors against an oracle that looks at every byte of every lane: asked for, and written in full."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.trace import LAST_ADDRESS, WARP, Op, Segment
from rdmodel.trace.coalescing import Chunk, StoreRule, WarpStream
from tests.support.coalescing_inputs import (
    LOAD,
    REQUEST_BYTES,
    RULES,
    drain,
    make_columns,
    rows,
    segments,
    unroll,
)
from tests.support.examples import examples
from tests.support.plain_coalescing import Row, remains, sector_masks


@st.composite
def neighbours(draw: st.DrawFn) -> list[int]:
    """Return 32 addresses that lie close together, in order or not: their bytes fill sectors, or nearly."""
    base, size = draw(st.integers(0, 300)), draw(st.sampled_from([1, 2, 4, 8, 16]))
    order = draw(st.permutations(range(WARP))) if draw(st.booleans()) else range(WARP)
    return [base + size * place for place in order]


@st.composite
def dense_rows(draw: st.DrawFn) -> Row:
    row = draw(rows())
    mask = draw(st.one_of(st.just((1 << WARP) - 1), st.integers(1, (1 << WARP) - 1)))
    return {**row, "lanes": {lane: a for lane, a in enumerate(draw(neighbours())) if mask >> lane & 1}}


@st.composite
def dense_segments(draw: st.DrawFn) -> Segment:
    part = draw(segments(1))
    base = [[draw(neighbours()) for _ in range(len(part.op))]]
    step = draw(st.lists(st.sampled_from([0, 4, 16, 32, 128]), min_size=len(part.op), max_size=len(part.op)))
    shape = np.array(base, np.int64).reshape(1, len(part.op), WARP)
    return dataclasses.replace(part, base=shape, step=np.array(step, np.int64))


def drain_sectors(stream: WarpStream, chunk: Chunk) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    more = True
    while more:
        more = stream.fill(chunk)
        found += zip(chunk.masks[: chunk.used].tolist(), chunk.full[: chunk.used].tolist(), strict=True)
    return found


@examples(300)
@given(
    st.one_of(
        st.lists(st.one_of(rows(), dense_rows()), max_size=6).map(lambda warp: (make_columns([warp]), warp)),
        st.lists(st.one_of(segments(1), dense_segments()), max_size=3).map(lambda part: (part, unroll(part, 0))),
    ),
    st.sampled_from([(128, 32), (128, 128), (64, 32), (128, 4), (32, 32), (512, 32), (8, 8), (1, 1)]),
    RULES,
    REQUEST_BYTES,
    st.integers(1, 4),
)
def test_sectors_are_those_that_the_lanes_touch_and_write_in_full_and_change_nothing_else(
    source, sizes, rule, request_bytes, instructions
):
    (program, executed_rows), (line, sector) = source, sizes
    room = WARP * (16 // line + 2)
    chunk = Chunk(instructions, room, details=True, sector=sector, full=True)
    wanted = drain(WarpStream(program, 0, line, rule, None, request_bytes), Chunk(instructions, room, details=True))
    assert drain(WarpStream(program, 0, line, rule, None, request_bytes), chunk) == wanted
    kept = [(row, remains(row, rule) or (None, False)) for row in executed_rows]
    assert drain_sectors(WarpStream(program, 0, line, rule, None, request_bytes), chunk) == [
        (asked, 0 if op == Op.LOAD else full)
        for row, (op, has_lines) in kept
        if has_lines
        for asked, full in sector_masks(row, line, sector, request_bytes)
    ]


def sectors_of(lanes: dict[int, int], size: int = 4, request_bytes: int = 128) -> list[tuple[int, int, int]]:
    """Return line, sectors and full sectors of each transaction of a store to 128-byte lines."""
    row = {**LOAD, "op": int(Op.STORE), "size": size, "lanes": lanes}
    chunk = Chunk(sector=32, full=True)
    WarpStream(make_columns([[row]]), 0, 128, StoreRule.LINES, None, request_bytes).fill(chunk)
    used = slice(chunk.used)
    return list(zip(chunk.lines[used].tolist(), chunk.masks[used].tolist(), chunk.full[used].tolist(), strict=True))


def test_before_maxwell_and_since_volta_a_warp_of_floats_is_one_request_of_four_sectors():
    assert sectors_of({lane: 4 * lane for lane in range(WARP)}) == [(0, 0b1111, 0b1111)]


def test_on_maxwell_and_pascal_a_warp_of_floats_is_four_requests_of_a_sector_each():
    lookups = sectors_of({lane: 4 * lane for lane in range(WARP)}, request_bytes=32)
    assert lookups == [(0, 0b1, 0b1), (0, 0b10, 0b10), (0, 0b100, 0b100), (0, 0b1000, 0b1000)]


def test_two_groups_in_one_sector_are_two_lookups_that_each_write_a_part_of_it():
    assert sectors_of({7: 0, 8: 4}, request_bytes=32) == [(0, 1, 0), (0, 1, 0)]


def test_a_lane_that_straddles_sectors_asks_for_both_of_them():
    assert sectors_of({0: 30}) == [(0, 0b11, 0)]
    assert sectors_of({0: 126}) == [(0, 0b1000, 0), (1, 0b1, 0)]


def test_the_highest_sector_does_not_overflow():
    assert sectors_of({0: LAST_ADDRESS, 1: LAST_ADDRESS - 16}, size=16) == [(LAST_ADDRESS // 128, 0b1000, 0b1000)]
