"""Make random warp instructions for tests of coalescing, and read what becomes of them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from rdmodel.trace import ALL_NEEDS, EVERY_ITERATION, WARP, Columns, Op, Program, Segment, Space
from rdmodel.trace.coalescing import Chunk, StoreRule, WarpStream
from tests.support.plain_coalescing import MACHINE_RULES, Request, Row, executed
from tests.support.random_traces import rows_of_program

LOAD: Row = {
    "pc": 0,
    "op": int(Op.LOAD),
    "space": int(Space.GLOBAL),
    "size": 4,
    "gap": 1,
    "needs": 2,
    "loop_exit": False,
    "lanes": {0: 256},
}


def unroll(program: Program, warp: int) -> list[Row]:
    """Execute a program for one warp, one lane of one iteration of one instruction at a time."""
    return executed(list(rows_of_program(program, warp)))


def make_columns(warps: list[list[Row]]) -> Columns:
    rows = [row for warp in warps for row in warp]
    lanes = [{} if row["op"] == Op.BARRIER else row["lanes"] for row in rows]
    return Columns(
        warp_start=np.cumsum([0, *map(len, warps)]),
        pc=[row["pc"] for row in rows],
        op=[row["op"] for row in rows],
        space=[row["space"] for row in rows],
        size=[row["size"] for row in rows],
        gap=[row["gap"] for row in rows],
        needs=np.array([row["needs"] for row in rows], np.uint64),
        loop_exit=[row["loop_exit"] for row in rows],
        mask=[sum(1 << lane for lane in row["lanes"]) for row in rows],
        address_start=np.cumsum([0, *map(len, lanes)]),
        addresses=[held[lane] for held in lanes for lane in sorted(held)],
    )


LINE_SIZES = st.sampled_from([1 << b for b in range(10)])
REQUEST_BYTES = st.sampled_from([128, 128, 32, 64, 512])
SIZES = st.integers(1, 16)
OPS = st.sampled_from([Op.LOAD, Op.LOAD, Op.STORE, Op.ATOMIC, Op.BARRIER]).map(int)
MASKS = st.one_of(st.just((1 << WARP) - 1), st.integers(0, (1 << WARP) - 1), st.integers(0, 3))
SPACES = st.sampled_from([Space.GLOBAL, *Space]).map(int)
PCS = st.one_of(st.integers(0, 9), st.just(2**31 - 1))
GAPS = st.one_of(st.integers(0, 9), st.just(2**31 - 2))
RULES = st.sampled_from([*StoreRule, *MACHINE_RULES])


@st.composite
def addresses(draw: st.DrawFn) -> list[int]:
    """Return 32 addresses: a stride, or scattered over few or many lines."""
    base = draw(st.integers(0, 5000))
    if draw(st.booleans()):
        stride = draw(st.sampled_from([0, 1, 3, 4, 8, 16, 100, 128, 4096]))
        return [base + stride * lane for lane in range(WARP)]
    spread = draw(st.sampled_from([8, 300, 1 << 40]))
    seed = draw(st.integers(0, 2**32 - 1))
    return (base + np.random.default_rng(seed).integers(0, spread, WARP)).tolist()


@st.composite
def rows(draw: st.DrawFn) -> Row:
    op = draw(OPS)
    mask = draw(MASKS if op == Op.BARRIER else MASKS.filter(bool))
    return {
        "pc": draw(PCS),
        "op": op,
        "space": draw(SPACES),
        "size": draw(SIZES),
        "gap": draw(GAPS),
        "needs": draw(st.integers(0, ALL_NEEDS)),
        "loop_exit": draw(st.booleans()),
        "lanes": {lane: a for lane, a in enumerate(draw(addresses())) if mask >> lane & 1},
    }


@st.composite
def segments(draw: st.DrawFn, warps: int) -> Segment:
    m = draw(st.integers(0, 3))

    def column(values: st.SearchStrategy, dtype: type) -> np.ndarray:
        return np.array(draw(st.lists(values, min_size=m, max_size=m)), dtype)

    def per_warp(values: st.SearchStrategy, dtype: type, *shape: int) -> np.ndarray:
        drawn = draw(st.lists(values, min_size=warps * m, max_size=warps * m))
        return np.array(drawn, dtype).reshape(warps, m, *shape)

    return Segment(
        trips=draw(st.integers(0, 6)),
        pc=column(PCS, np.int32),
        op=column(OPS, np.uint8),
        space=column(SPACES, np.uint8),
        size=column(SIZES, np.uint8),
        gap=column(GAPS, np.int32),
        loop_exit=column(st.integers(0, EVERY_ITERATION), np.uint8)
        if draw(st.booleans())
        else column(st.booleans(), np.bool_),
        step=column(st.sampled_from([0, 4, 100, 4096, -128]), np.int64),
        needs=per_warp(st.integers(0, ALL_NEEDS), np.uint64),
        mask=per_warp(MASKS, np.uint32),
        base=per_warp(addresses().map(lambda a: [n + 1000 for n in a]), np.int64, WARP),
    )


def drain(stream: WarpStream, chunk: Chunk) -> list[Request]:
    """Read a stream to its end, checking that every chunk is within its room and that reading goes on.

    Requests end with their lines if the chunk has no room for details.
    """
    details = [column for column in (chunk.pc, chunk.lanes, chunk.flags) if len(column)]
    found: list[Request] = []
    more = True
    while more:
        more = stream.fill(chunk)
        assert chunk.n > 0 or not more
        assert chunk.n <= len(chunk.op)
        assert chunk.used == chunk.count[: chunk.n].sum() <= len(chunk.lines)
        ends = np.cumsum(chunk.count[: chunk.n])
        for i, end in enumerate(ends.tolist()):
            lines = tuple(chunk.lines[end - chunk.count[i] : end].tolist())
            more_of_it = (int(column[i]) for column in details)
            found.append((int(chunk.op[i]), int(chunk.needs[i]), int(chunk.gap[i]), lines, *more_of_it))
    assert not stream.fill(chunk)
    assert chunk.n == 0
    return found
