"""The summary against sets and loops in plain Python."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import ConfigError
from rdmodel.trace import ArrayInfo, Columns, Launch, Op, Trace, slice_warps
from rdmodel.trace import summary as module
from rdmodel.trace.summary import summarise
from tests.support.examples import examples
from tests.support.random_traces import column_traces, program_traces, write_out

LINES = st.sampled_from([1, 32, 128])
PC, OP, SPACE, SIZE = range(4)


def touched(address, size, line):
    """Return the lines that one access covers, ascending."""
    return range(address // line, (address + size - 1) // line + 1)


def transactions(lanes, size, line):
    """Return how many distinct lines each group of lanes touches, summed over groups (CUDA guide, G.4.2)."""
    width = 32 if size <= 4 else 16 if size <= 8 else 8
    groups = {}
    for lane, address in lanes.items():
        groups.setdefault(lane // width, set()).update(touched(address, size, line))
    return sum(map(len, groups.values()))


@examples(80)
@given(trace=st.one_of(column_traces(), program_traces()), line=LINES)
def test_the_summary_is_what_loops_and_sets_say(trace, line):
    rows = [row for warp in write_out(trace).values() for row in warp]
    accesses = [(address, row[SIZE]) for row in rows for address in row[-1].values()]
    lines = {n for address, size in accesses for n in touched(address, size, line)}
    found = summarise(trace, line)
    assert found.instructions == {op.name.lower(): sum(row[OP] == op for row in rows) for op in Op}
    assert found.lane_accesses == len(accesses)
    assert found.bytes_requested == sum(size for _, size in accesses)
    assert found.lines == len(lines)
    assert found.footprint == len(lines) * line
    loads = [row for row in rows if row[OP] == Op.LOAD]
    assert found.load_transactions == sum(transactions(row[-1], row[SIZE], line) for row in loads)
    assert found.blocks_held == len(trace.blocks)
    for use, array in zip(found.arrays, trace.launch.arrays, strict=True):
        own = range(array.base, array.base + array.bytes)
        assert use.accesses == sum(address in own for address, _ in accesses)
        assert use.footprint == line * sum(n * line < own.stop and (n + 1) * line > own.start for n in lines)
    assert found.elsewhere == len(accesses) - sum(use.accesses for use in found.arrays)


@examples(40)
@given(trace=st.one_of(column_traces(), program_traces()), limit=st.integers(1, 200))
def test_the_size_of_pieces_and_merges_does_not_show(trace, limit):
    whole = summarise(trace)
    cut = module.split_block
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "split_block", lambda *at: cut(*at, limit))
        patch.setattr(module, "_LINES_PER_MERGE", limit)
        assert summarise(trace) == whole


def load_of(addresses, size=4, arrays=()):
    """Return a trace of one warp and one load."""
    columns = Columns(
        warp_start=[0, 1],
        pc=[0],
        op=[Op.LOAD],
        space=[0],
        size=[size],
        gap=[0],
        needs=np.zeros(1, np.uint64),
        loop_exit=[False],
        mask=[(1 << len(addresses)) - 1],
        address_start=[0, len(addresses)],
        addresses=addresses,
    )
    return Trace(Launch(kernel="one", grid=(1, 1, 1), block=(32, 1, 1), arrays=arrays), columns)


def test_a_coalesced_load_is_one_transaction_and_a_strided_one_is_one_per_lane():
    assert summarise(load_of(4 * np.arange(32))).transactions_per_load == 1
    assert summarise(load_of(128 * np.arange(32))).transactions_per_load == 32
    assert summarise(load_of([127], size=4)).lines == 2


def test_a_line_shared_by_two_arrays_counts_for_both_but_once_in_all():
    arrays = (ArrayInfo("B", 64, 64), ArrayInfo("A", 0, 64))
    found = summarise(load_of([0, 64, 65, 500], arrays=arrays))
    assert [(use.name, use.accesses, use.footprint) for use in found.arrays] == [("A", 1, 128), ("B", 2, 128)]
    assert found.lines == 2
    assert found.elsewhere == 1


def test_a_trace_that_holds_no_block_is_all_zeros():
    one = load_of([0])
    nothing = Trace(one.launch, slice_warps(one.columns, 0, 0), [])
    found = summarise(nothing)
    assert (found.blocks, found.blocks_held) == (1, 0)
    assert (found.lane_accesses, found.lines, found.active_lanes, found.transactions_per_load) == (0, 0, 0, 0)


def test_a_summary_is_plain_data():
    found = summarise(load_of([0, 4], arrays=(ArrayInfo("A", 0, 64),)))
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain == found.to_dict()
    assert plain["active_lanes"] == 2
    assert plain["transactions_per_load"] == 1
    assert plain["arrays"] == [{"name": "A", "base": 0, "bytes": 64, "accesses": 2, "footprint": 128}]


@pytest.mark.parametrize("line", [0, -128, 96])
def test_a_line_that_is_no_power_of_two_is_refused(line):
    with pytest.raises(ConfigError, match=f"line={line}: must be a power of two"):
        summarise(load_of([0]), line)
