"""Coalescing against an oracle that looks at every byte of every lane, from columns and from loops."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdmodel.coalescing import Chunk, StoreRule, WarpStream, open_block
from rdmodel.coalescing import coalesce as coalesce_all
from rdmodel.trace import ALL_NEEDS, LAST_ADDRESS, WARP, Columns, Launch, Op, Program, Segment, Space, Trace

Row = dict[str, object]
"""One warp instruction as executed: op, size, gap, needs and `lanes` from lane to address."""

Request = tuple[int, int, int, tuple[int, ...]]
"""One coalesced instruction: op, needs, gap, lines."""


# ---- the oracle


def group_of(lane: int, size: int) -> int:
    """Return the number of a lane's group: warp, half-warps or quarter-warps (CUDA guide G.4.2)."""
    lanes_together = 32 if size <= 4 else 16 if size <= 8 else 8
    return lane // lanes_together


def lines_of_groups(row: Row, line: int) -> list[list[int]]:
    """Return each group's distinct lines in the order in which its lanes first touch them."""
    groups: dict[int, list[int]] = {}
    for lane in sorted(row["lanes"]):
        touched = groups.setdefault(group_of(lane, row["size"]), [])
        for byte in range(row["size"]):
            number = (row["lanes"][lane] + byte) // line
            if number not in touched:
                touched.append(number)
    return [groups[group] for group in sorted(groups)]


def requests(rows: list[Row], line: int, rule: StoreRule) -> list[Request]:
    """Return what is to be left of a warp's instructions under a store rule."""
    left = []
    waited = 0
    for row in rows:
        waited += row["gap"] if row["op"] == Op.BARRIER else 0
        if row["op"] == Op.BARRIER or (rule == StoreRule.DROP and row["op"] != Op.LOAD):
            continue
        silent = rule == StoreRule.KEEP and row["op"] != Op.LOAD
        lines = () if silent else tuple(n for group in lines_of_groups(row, line) for n in group)
        op = Op.LOAD if rule == StoreRule.AS_LOAD else row["op"]
        left.append((int(op), row["needs"], row["gap"] + waited, lines))
        waited = 0
    return left


def unroll(program: Program, warp: int) -> list[Row]:
    """Execute a program for one warp, one lane of one iteration of one instruction at a time."""
    rows = []
    for segment in program:
        for trip in range(segment.trips):
            for i in range(len(segment.op)):
                mask = int(segment.mask[warp, i])
                if mask == 0:
                    continue
                lanes = {
                    lane: int(segment.base[warp, i, lane]) + trip * int(segment.step[i])
                    for lane in range(WARP)
                    if mask >> lane & 1
                }
                rows.append(
                    {
                        "op": int(segment.op[i]),
                        "size": int(segment.size[i]),
                        "gap": int(segment.gap[i]),
                        "needs": int(segment.needs[warp, i]),
                        "lanes": lanes,
                    }
                )
    return rows


# ---- inputs


def make_columns(warps: list[list[Row]]) -> Columns:
    rows = [row for warp in warps for row in warp]
    lanes = [{} if row["op"] == Op.BARRIER else row["lanes"] for row in rows]
    n = len(rows)
    return Columns(
        warp_start=np.cumsum([0, *map(len, warps)]),
        pc=np.arange(n),
        op=[row["op"] for row in rows],
        space=np.zeros(n, int),
        size=[row["size"] for row in rows],
        gap=[row["gap"] for row in rows],
        needs=np.array([row["needs"] for row in rows], np.uint64),
        loop_exit=np.zeros(n, bool),
        mask=[sum(1 << lane for lane in row["lanes"]) for row in rows],
        address_start=np.cumsum([0, *map(len, lanes)]),
        addresses=[held[lane] for held in lanes for lane in sorted(held)],
    )


LINE_SIZES = st.sampled_from([1 << b for b in range(10)])
SIZES = st.integers(1, 16)
OPS = st.sampled_from([Op.LOAD, Op.LOAD, Op.STORE, Op.ATOMIC, Op.BARRIER]).map(int)
MASKS = st.one_of(st.just((1 << WARP) - 1), st.integers(0, (1 << WARP) - 1), st.integers(0, 3))
RULES = st.sampled_from(StoreRule)


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
    mask = draw(MASKS.filter(bool))
    return {
        "op": draw(OPS),
        "size": draw(SIZES),
        "gap": draw(st.integers(0, 9)),
        "needs": draw(st.integers(0, ALL_NEEDS)),
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
        pc=column(st.integers(0, 9), np.int32),
        op=column(OPS, np.uint8),
        space=np.zeros(m, np.uint8),
        size=column(SIZES, np.uint8),
        gap=column(st.integers(0, 9), np.int32),
        loop_exit=np.zeros(m, np.bool_),
        step=column(st.sampled_from([0, 4, 100, 4096, -128]), np.int64),
        needs=per_warp(st.integers(0, ALL_NEEDS), np.uint64),
        mask=per_warp(MASKS, np.uint32),
        base=per_warp(addresses().map(lambda a: [n + 1000 for n in a]), np.int64, WARP),
    )


def drain(stream: WarpStream, chunk: Chunk) -> list[Request]:
    """Read a stream to its end, checking that every chunk is within its room and that reading goes on."""
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
            found.append((int(chunk.op[i]), int(chunk.needs[i]), int(chunk.gap[i]), lines))
    assert not stream.fill(chunk)
    assert chunk.n == 0
    return found


@st.composite
def chunks(draw: st.DrawFn, line: int) -> Chunk:
    """Return a chunk with room for little more than one instruction: 32 lanes of 16 bytes, unaligned."""
    most = WARP * (16 // line + 2)
    return Chunk(draw(st.integers(1, 4)), most + draw(st.integers(0, 100)))


# ---- equality with the oracle


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(rows(), max_size=6), min_size=1, max_size=3), LINE_SIZES, RULES, st.data())
def test_columns_are_coalesced_as_by_the_oracle_wherever_chunks_end(warps, line, rule, data):
    columns = make_columns(warps)
    columns.check()
    for warp, program in enumerate(warps):
        found = drain(WarpStream(columns, warp, line, rule), data.draw(chunks(line)))
        assert found == requests(program, line, rule)


@settings(max_examples=150, deadline=None)
@given(st.lists(segments(warps=2), max_size=3), LINE_SIZES, RULES, st.data())
def test_loops_are_coalesced_as_by_the_oracle_wherever_chunks_end(program, line, rule, data):
    for warp in range(2):
        found = drain(WarpStream(program, warp, line, rule), data.draw(chunks(line)))
        assert found == requests(unroll(program, warp), line, rule)


# ---- laws of one instruction


@settings(max_examples=150, deadline=None)
@given(rows().filter(lambda row: row["op"] != Op.BARRIER), LINE_SIZES)
def test_no_lane_is_lost_and_no_group_requests_a_line_twice(row, line):
    ((_, _, _, lines),) = drain(WarpStream(make_columns([[row]]), 0, line, StoreRule.AS_LOAD), Chunk())
    touched = {(a + byte) // line for a in row["lanes"].values() for byte in range(row["size"])}
    assert set(lines) == touched
    used = {group_of(lane, row["size"]) for lane in row["lanes"]}
    assert all(lines.count(number) <= len(used) for number in touched)
    assert len(lines) == sum(len(set(group)) for group in lines_of_groups(row, line))


def coalesce(lanes: dict[int, int], size: int = 4, line: int = 128) -> tuple[int, ...]:
    row = {"op": Op.LOAD, "size": size, "gap": 0, "needs": 0, "lanes": lanes}
    ((_, _, _, lines),) = drain(WarpStream(make_columns([[row]]), 0, line, StoreRule.DROP), Chunk())
    return lines


@pytest.mark.parametrize(("size", "groups"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 4), (16, 4)])
def test_every_group_requests_a_line_that_all_lanes_share(size, groups):
    assert coalesce(dict.fromkeys(range(WARP), 512), size) == (4,) * groups


def test_lines_come_in_the_order_of_the_lanes_not_of_the_addresses():
    assert coalesce({0: 900, 1: 0, 2: 905, 5: 300}) == (7, 0, 2)


def test_a_lane_that_straddles_a_boundary_requests_both_lines():
    assert coalesce({3: 126}) == (0, 1)
    assert coalesce({3: 30}, size=16, line=8) == (3, 4, 5)


def test_the_highest_address_does_not_overflow():
    assert coalesce({0: LAST_ADDRESS}, size=16) == (LAST_ADDRESS // 128,)


# ---- blocks


def test_a_block_opens_one_stream_per_warp():
    load = {"op": int(Op.LOAD), "size": 4, "gap": 1, "needs": 2, "lanes": {0: 256}}
    launch = Launch(kernel="k", grid=(2, 1, 1), block=(40, 1, 1))
    trace = Trace(launch, make_columns([[load], [], [load, load], [load]]))
    chunk, counts = Chunk(), []
    for stream in open_block(trace, 1, 128, StoreRule.KEEP):
        assert not stream.fill(chunk)
        counts.append(chunk.n)
    assert counts == [2, 1]


def test_columns_are_coalesced_as_a_whole_warp_after_warp():
    load = {"op": int(Op.LOAD), "size": 4, "gap": 1, "needs": 2, "lanes": {0: 256, 1: 512}}
    store = {**load, "op": int(Op.STORE)}
    columns = make_columns([[load], [], [store, load], [load]])
    (chunk,) = coalesce_all(columns, 128, StoreRule.DROP)
    assert chunk.count[: chunk.n].tolist() == [2, 2, 2]
    assert chunk.lines[: chunk.used].tolist() == [2, 4] * 3


def test_constants_keep_their_place_and_wait_but_make_no_transaction():
    load = {"op": int(Op.LOAD), "size": 4, "gap": 1, "needs": 2, "lanes": {0: 256}}
    columns = dataclasses.replace(make_columns([[load, load]]), space=np.array([Space.CONSTANT, Space.GLOBAL]))
    for rule, places in ((StoreRule.DROP, [0]), (StoreRule.KEEP, [1, 0]), (StoreRule.AS_LOAD, [1, 0])):
        (chunk,) = coalesce_all(columns, 128, rule)
        assert chunk.op[: chunk.n].tolist() == places
        assert chunk.lines[: chunk.used].tolist() == [2]
