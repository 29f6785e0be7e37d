"""Coalescing against an oracle that looks at every byte of every lane, from columns and from loops."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdmodel.trace import (
    EVERY_ITERATION,
    LAST_ADDRESS,
    WARP,
    Columns,
    Launch,
    Op,
    Segment,
    Space,
    Trace,
)
from rdmodel.trace.coalescing import LOCAL, LOOP_EXIT, Chunk, StoreRule, WarpStream, open_block
from rdmodel.trace.coalescing import coalesce as coalesce_all
from tests.support.coalescing_inputs import (
    LINE_SIZES,
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
from tests.support.plain_coalescing import (
    MACHINE_RULES,
    Request,
    Row,
    executed,
    group_of,
    lines_of_groups,
    remains,
    requests,
)
from tests.support.random_traces import ProgramTrace, column_traces, program_traces, segment, write_out


@st.composite
def chunks(draw: st.DrawFn, line: int) -> Chunk:
    """Return a chunk with room for little more than one instruction: 32 lanes of 16 bytes, unaligned."""
    most = WARP * (16 // line + 2)
    return Chunk(draw(st.integers(1, 4)), most + draw(st.integers(0, 100)), details=True)


def with_all_spaces(draw: st.DrawFn, trace: Trace) -> Trace:
    """Return the trace with some of its instructions served elsewhere."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def respace(part: Columns | Segment) -> Columns | Segment:
        return dataclasses.replace(part, space=random.integers(0, len(Space), len(part.pc), np.uint8))

    if not isinstance(trace, ProgramTrace):
        return Trace(trace.launch, respace(trace.columns), trace.blocks)
    return ProgramTrace(trace.launch, {b: [respace(part) for part in p] for b, p in trace.programs.items()})


@st.composite
def all_traces(draw: st.DrawFn) -> Trace:
    """Return a trace of either form, in all spaces."""
    return with_all_spaces(draw, draw(st.one_of(column_traces(most_rows=4), program_traces())))


# ---- equality with the oracle


@examples(150)
@given(st.lists(st.lists(rows(), max_size=6), min_size=1, max_size=3), LINE_SIZES, RULES, REQUEST_BYTES, st.data())
def test_columns_are_coalesced_as_by_the_oracle_wherever_chunks_end(warps, line, rule, request_bytes, data):
    columns = make_columns(warps)
    columns.check()
    for warp, program in enumerate(warps):
        found = drain(WarpStream(columns, warp, line, rule, None, request_bytes), data.draw(chunks(line)))
        assert found == requests(program, line, rule, request_bytes)


@examples(150)
@given(st.lists(segments(warps=2), max_size=3), LINE_SIZES, RULES, REQUEST_BYTES, st.data())
def test_loops_are_coalesced_as_by_the_oracle_wherever_chunks_end(program, line, rule, request_bytes, data):
    for warp in range(2):
        found = drain(WarpStream(program, warp, line, rule, None, request_bytes), data.draw(chunks(line)))
        assert found == requests(unroll(program, warp), line, rule, request_bytes)


@examples(100)
@given(segments(2), st.integers(3, 60), LINE_SIZES, RULES, REQUEST_BYTES, st.integers(1, 40), st.integers(0, 100))
def test_long_loops_are_coalesced_as_by_the_oracle_wherever_chunks_end(
    segment, trips, line, rule, request_bytes, instructions, lines
):
    # Iterations are copied from the one before as far as a chunk has room for them.
    program = [dataclasses.replace(segment, trips=trips)]
    chunk = Chunk(instructions, WARP * (16 // line + 2) + lines, details=True)
    for warp in range(2):
        found = drain(WarpStream(program, warp, line, rule, None, request_bytes), chunk)
        assert found == requests(unroll(program, warp), line, rule, request_bytes)


@examples(60)
@given(all_traces(), st.sampled_from([8, 32, 128]), RULES, st.data())
def test_whole_traces_reach_the_reader_as_by_the_oracle_wherever_chunks_end(trace, line, rule, data):
    written, chunk = write_out(trace), data.draw(chunks(line))
    for block in trace.blocks:
        for warp, stream in enumerate(open_block(trace, block, line, rule)):
            assert drain(stream, chunk) == requests(executed(written[block, warp]), line, rule)


@pytest.mark.parametrize("rule", StoreRule)
def test_bodies_too_long_to_be_looked_at_beforehand_are_coalesced_as_by_the_oracle(rule):
    program = [segment(np.random.default_rng(1), 1, trips, 65) for trips in (3, 1)]
    found = drain(WarpStream(program, 0, 128, rule), Chunk(40, 1000, details=True))
    assert found == requests(unroll(program, 0), 128, rule)


@settings(deadline=None)
@given(
    st.one_of(st.lists(rows(), max_size=6).map(lambda w: make_columns([w])), st.lists(segments(1), max_size=3)), RULES
)
def test_without_details_the_requests_are_the_same_and_nothing_else_is_written(source, rule):
    bare, untouched = Chunk(3, 2000), {}
    for name in ("pc", "lanes", "flags"):
        dtype = getattr(bare, name).dtype
        assert len(getattr(bare, name)) == 0
        # Empty, but with memory behind it in which a write would be seen.
        untouched[name] = np.full(64, 77, dtype)
        setattr(bare, name, untouched[name][:0])
    detailed = drain(WarpStream(source, 0, 128, rule), Chunk(details=True))
    assert drain(WarpStream(source, 0, 128, rule), bare) == [request[:4] for request in detailed]
    assert all((memory == 77).all() for memory in untouched.values())


# ---- which lanes asked for a line


def masks_of(row: Row, line: int) -> list[int]:
    """Return for each line of `lines_of_groups`, one group after the other, the lanes that touch a byte of it."""
    masks = []
    for group, lines in enumerate(lines_of_groups(row, line)):
        used = sorted({group_of(lane, row["size"]) for lane in row["lanes"]})[group]
        for number in lines:
            touching = {
                lane
                for lane, address in row["lanes"].items()
                if group_of(lane, row["size"]) == used
                and any((address + byte) // line == number for byte in range(row["size"]))
            }
            masks.append(sum(1 << lane for lane in touching))
    return masks


def drain_masks(stream: WarpStream, chunk: Chunk) -> list[int]:
    found: list[int] = []
    more = True
    while more:
        more = stream.fill(chunk)
        found += chunk.masks[: chunk.used].tolist()
    return found


@examples(150)
@given(
    st.one_of(
        st.lists(rows(), max_size=6).map(lambda warp: (make_columns([warp]), warp)),
        st.lists(segments(1), max_size=3).map(lambda program: (program, unroll(program, 0))),
    ),
    LINE_SIZES,
    RULES,
    st.integers(1, 4),
    st.integers(0, 100),
)
def test_masks_are_the_lanes_of_each_line_and_change_nothing_else(source, line, rule, instructions, lines):
    program, executed_rows = source
    room = WARP * (16 // line + 2) + lines
    masked = Chunk(instructions, room, details=True, masks=True)
    plain = Chunk(instructions, room, details=True)
    wanted = drain(WarpStream(program, 0, line, rule), plain)
    assert drain(WarpStream(program, 0, line, rule), masked) == wanted
    assert drain_masks(WarpStream(program, 0, line, rule), masked) == [
        mask for row in executed_rows if (remains(row, rule) or (None, False))[1] for mask in masks_of(row, line)
    ]
    assert len(plain.masks) == 0


def test_a_lane_that_straddles_is_in_the_masks_of_both_lines_and_groups_keep_their_lanes_apart():
    chunk = Chunk(masks=True)
    row = {**LOAD, "size": 8, "lanes": {0: 124, 1: 0, 15: 128, 16: 0, 17: 4}}
    WarpStream(make_columns([[row]]), 0, 128, StoreRule.DROP).fill(chunk)
    assert chunk.lines[: chunk.used].tolist() == [0, 1, 0]
    assert chunk.masks[: chunk.used].tolist() == [0b11, 1 << 15 | 1, 0b11 << 16]


# ---- laws of one instruction


@examples(150)
@given(rows().filter(lambda row: row["op"] != Op.BARRIER and row["space"] <= Space.LOCAL), LINE_SIZES)
def test_no_lane_is_lost_and_no_group_requests_a_line_twice(row, line):
    ((_, _, _, lines),) = drain(WarpStream(make_columns([[row]]), 0, line, StoreRule.AS_LOAD), Chunk())
    touched = {(a + byte) // line for a in row["lanes"].values() for byte in range(row["size"])}
    assert set(lines) == touched
    used = {group_of(lane, row["size"]) for lane in row["lanes"]}
    assert all(lines.count(number) <= len(used) for number in touched)
    assert len(lines) == sum(len(set(group)) for group in lines_of_groups(row, line))


def coalesce(lanes: dict[int, int], size: int = 4, line: int = 128) -> tuple[int, ...]:
    row = {**LOAD, "size": size, "lanes": lanes}
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
    launch = Launch(kernel="k", grid=(2, 1, 1), block=(40, 1, 1))
    trace = Trace(launch, make_columns([[LOAD], [], [LOAD, LOAD], [LOAD]]))
    chunk, counts = Chunk(), []
    for stream in open_block(trace, 1, 128, StoreRule.KEEP):
        assert not stream.fill(chunk)
        counts.append(chunk.n)
    assert counts == [2, 1]


def test_columns_are_coalesced_as_a_whole_warp_after_warp():
    load = {**LOAD, "lanes": {0: 256, 1: 512}}
    store = {**load, "op": int(Op.STORE)}
    columns = make_columns([[load], [], [store, load], [load]])
    (chunk,) = coalesce_all(columns, 128, StoreRule.DROP)
    assert chunk.count[: chunk.n].tolist() == [2, 2, 2]
    assert chunk.lines[: chunk.used].tolist() == [2, 4] * 3


def test_constants_keep_their_place_and_wait_but_make_no_transaction():
    columns = make_columns([[{**LOAD, "space": Space.CONSTANT}, LOAD]])
    for rule, places in ((StoreRule.DROP, [0]), (StoreRule.KEEP, [1, 0]), (StoreRule.AS_LOAD, [1, 0])):
        (chunk,) = coalesce_all(columns, 128, rule)
        assert chunk.op[: chunk.n].tolist() == places
        assert chunk.lines[: chunk.used].tolist() == [2]


# ---- what the simulator executes


def machine(warp: list[Row], rule: StoreRule = StoreRule.MACHINE) -> list[Request]:
    return drain(WarpStream(make_columns([warp]), 0, 128, rule), Chunk(details=True))


@pytest.mark.parametrize("rule", MACHINE_RULES)
def test_the_simulator_sees_a_barrier_with_its_own_gap_and_lanes_and_leaves_the_next_gap_alone(rule):
    barrier = {**LOAD, "op": Op.BARRIER, "pc": 7, "gap": 5, "needs": 0, "lanes": dict.fromkeys(range(20))}
    after = (Op.LOAD, 2, 1, (2,), 0, 1, 0)
    assert machine([barrier, LOAD, barrier], rule) == [
        (Op.BARRIER, 0, 5, (), 7, 20, 0),
        after,
        (Op.BARRIER, 0, 5, (), 7, 20, 0),
    ]


def test_only_the_full_machine_sees_the_lines_of_stores_and_atomics_and_both_see_what_they_are():
    warp = [{**LOAD, "op": op, "lanes": {0: 256, 3: 512}} for op in (Op.STORE, Op.ATOMIC, Op.LOAD)]
    full, loads = machine(warp), machine(warp, StoreRule.MACHINE_LOADS)
    assert [(op, lines) for op, _, _, lines, *_ in full] == [(op, (2, 4)) for op in (Op.STORE, Op.ATOMIC, Op.LOAD)]
    assert [(op, lines) for op, _, _, lines, *_ in loads] == [(Op.STORE, ()), (Op.ATOMIC, ()), (Op.LOAD, (2, 4))]


@pytest.mark.parametrize("rule", MACHINE_RULES)
@pytest.mark.parametrize("space", [Space.CONSTANT, Space.TEXTURE])
def test_the_simulator_sees_what_is_served_elsewhere_as_a_store_without_lines(space, rule):
    for op in (Op.LOAD, Op.STORE, Op.ATOMIC):
        ((kind, needs, gap, lines, _, lanes, flags),) = machine([{**LOAD, "op": op, "space": space}], rule)
        assert (kind, needs, gap, lines, lanes, flags) == (Op.STORE, 2, 1, (), 1, 0)


def test_a_warp_leaves_a_loop_after_the_marked_instruction_of_its_last_iteration_only():
    plain = segment(np.random.default_rng(1), 1, 3, 2)
    marked = np.array([False, True])
    ones, local = np.ones((1, 2), np.uint32), np.array([Space.LOCAL, Space.GLOBAL], np.uint8)
    program = [dataclasses.replace(plain, loop_exit=marked, mask=ones, space=local)]
    found = drain(WarpStream(program, 0, 128, StoreRule.MACHINE), Chunk(1, 2000, details=True))
    assert [flags for *_, flags in found] == [LOCAL, 0, LOCAL, 0, LOCAL, LOOP_EXIT]


def test_a_warp_leaves_a_loop_that_is_written_out_in_every_iteration():
    plain = segment(np.random.default_rng(1), 1, 3, 2)
    marked, ones = np.array([0, EVERY_ITERATION], np.uint8), np.ones((1, 2), np.uint32)
    program = [dataclasses.replace(plain, loop_exit=marked, mask=ones, space=np.zeros(2, np.uint8))]
    for masks in (False, True):
        found = drain(WarpStream(program, 0, 128, StoreRule.MACHINE), Chunk(1, 2000, details=True, masks=masks))
        assert [flags for *_, flags in found] == [0, LOOP_EXIT] * 3
