"""Memory need of a run: distinct lines are bounded or estimated, and bounds of bytes hold and are monotone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from rdmodel.execution import memory_need
from rdmodel.execution.memory_need import LineCounter, addresses_within, count_lines, transactions_within
from rdmodel.trace import Trace
from rdmodel.trace.coalescing import Chunk, StoreRule, open_block
from tests.support.builders import make_trace
from tests.support.examples import examples
from tests.support.random_traces import column_traces, program_traces


def lines_of(trace, line, rule):
    """Return the lines of all transactions, one by one."""
    chunk, lines = Chunk(), []
    for block in trace.blocks:
        for stream in open_block(trace, block, line, rule):
            more = True
            while more:
                more = stream.fill(chunk)
                lines += chunk.lines[: chunk.used].tolist()
    return lines


@examples(40)
@given(trace=st.one_of(column_traces(), program_traces()), rule=st.sampled_from(StoreRule))
def test_few_lines_are_counted_exactly_but_for_collisions(trace, rule):
    distinct = len(set(lines_of(trace, 128, rule)))
    assert distinct <= count_lines(trace, trace.blocks, 128, rule) + distinct * 0.01
    assert count_lines(trace, trace.blocks, 128, rule) <= distinct + 4


@examples(60)
@given(trace=column_traces(), line=st.sampled_from([1, 4, 16, 32, 128]), data=st.data())
def test_a_trace_that_is_said_to_have_few_transactions_has_them(trace, line, data):
    actual = len(lines_of(trace, line, StoreRule.LINES))
    most = data.draw(st.integers(0, 20 * actual + 100))
    if transactions_within(trace, trace.blocks, line, most):
        assert actual <= most
    assert transactions_within(trace, trace.blocks, line, 17 * len(trace.columns.addresses))


@examples(60)
@given(trace=column_traces(), line=st.sampled_from([1, 4, 16, 32, 128]), data=st.data())
def test_a_trace_that_is_said_to_lie_in_few_lines_has_no_more(trace, line, data):
    distinct = len(set(lines_of(trace, line, StoreRule.LINES)))
    most = data.draw(st.integers(0, 2 * distinct + 16))
    if addresses_within(trace, line, most):
        assert distinct <= most
    addresses = trace.columns.addresses
    if len(addresses) > 0:
        assert trace.address_bounds == (min(addresses.tolist()), max(addresses.tolist()))
        assert addresses_within(trace, line, (int(addresses.max()) + 15) // line - int(addresses.min()) // line + 1)


@pytest.mark.parametrize(
    ("addresses", "lines"), [((0, 112), 1), ((0, 113), 2), ((127, 128), 2), ((128, 384), 3), ((384, 128), 3)]
)
def test_the_range_of_addresses_includes_the_last_byte_that_a_lane_may_request(addresses, lines):
    two_lanes = make_trace([[[(0, 0, 0, (0, 1))]]], warps=1)
    trace = Trace(two_lanes.launch, replace(two_lanes.columns, addresses=np.array(addresses)))
    assert addresses_within(trace, 128, lines)
    assert not addresses_within(trace, 128, lines - 1)


def test_the_range_of_addresses_is_not_known_without_the_check_of_them():
    trace = make_trace([[[(0, 0, 0, (1, 2))]]], warps=1)
    unchecked = Trace(trace.launch, trace.columns, trace.blocks, trusted=True)
    assert addresses_within(trace, 128, 10**12)
    assert unchecked.address_bounds is None
    assert not addresses_within(unchecked, 128, 10**12)
    no_addresses = make_trace([[[]]], warps=1)
    assert no_addresses.address_bounds is None


def test_of_a_trace_that_is_made_on_demand_nothing_is_known_without_a_look():
    @examples(5)
    @given(trace=program_traces())
    def check(trace):
        assert not transactions_within(trace, trace.blocks, 128, 10**12) or len(trace.blocks) == 0
        assert not addresses_within(trace, 128, 10**12)

    check()


def test_only_the_blocks_that_are_asked_for_count():
    load = (0, 0, 0, (1, 2))
    trace = make_trace([[[load]], [[load] * 50]], warps=1)
    assert transactions_within(trace, [0], 128, 4)
    assert not transactions_within(trace, [0, 1], 128, 4)
    assert count_lines(trace, [0], 128, StoreRule.LINES) in (2, 3)


@pytest.mark.parametrize(
    ("distinct", "stride"),
    [(1000, 1), (1000, 3 << 40), (100_000, 1), (100_000, 4096), (100_000, 3 << 40), (3_000_000, 1), (30_000_000, 1)],
)
def test_the_estimate_is_close_and_hardly_ever_low(distinct, stride):
    counter = LineCounter()
    for first in range(0, distinct, 1 << 20):
        counter.add(np.arange(first, min(distinct, first + (1 << 20))) * stride)
    assert 0.999 * distinct <= counter.upper_bound() <= 1.01 * distinct + 4


def test_where_more_lines_fit_the_table_is_longer():
    few, many = LineCounter(1 << 26), LineCounter((1 << 26) + 1)
    for counter in (few, many):
        counter.add(np.arange(10**6))
        assert 0.999e6 <= counter.upper_bound() <= 1.01e6


def test_a_line_counts_once_however_often_it_comes():
    counter = LineCounter()
    for _ in range(3):
        counter.add(np.array([5, 5, -7, 1 << 55], np.int64))
    assert counter.upper_bound() in (3, 4)


def test_a_missing_block_is_named(tmp_path):
    trace = make_trace([[[]]], warps=1)
    with pytest.raises(TraceError, match="block 7 is not in the trace"):
        count_lines(trace, [7], 128, StoreRule.LINES)
    with pytest.raises(TraceError, match="block 7 is not in the trace"):
        transactions_within(trace, [7], 128, 100)


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 20), st.integers(1, 64))
def test_more_lines_and_more_sms_never_need_less(a, b, sms, warps):
    low, high = sorted((a, b))
    for need in (
        lambda lines, sms=1: memory_need.prediction_bytes(lines, sms=sms, sets=1, warps=warps),
        lambda lines, sms=1: memory_need.prediction_bytes(lines, sms=sms, sets=32, warps=warps, runs=3),
        lambda lines, sms=1: memory_need.simulation_bytes(lines, sms=sms, warps=warps),
        lambda lines, sms=1: memory_need.summary_bytes(lines),
        lambda lines, sms=1: memory_need.sampled_bytes(lines, 1.0, sms=sms, warps=warps),
        lambda lines, sms=1: memory_need.sampled_bytes(lines, 0.01, sms=sms, warps=warps),
    ):
        assert need(low) <= need(high)
        assert need(high, 1) <= need(high, sms)
