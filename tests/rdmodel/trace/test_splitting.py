"""Cutting a block into pieces changes nothing but their size."""

from hypothesis import given
from hypothesis import strategies as st

from rdmodel.trace import WARP
from rdmodel.trace.splitting import split_block
from tests.support.examples import examples
from tests.support.random_traces import column_traces, program_traces, rows_of_columns, write_out

LIMITS = st.sampled_from([1, 31, 64, 200, 1000, 10**6])


def join(trace, limit):
    """Return what `write_out` returns, from the pieces."""
    joined = {(block, warp): [] for block in trace.blocks for warp in range(trace.launch.block_warps)}
    for block in trace.blocks:
        last = 0
        for first, columns in split_block(trace, block, limit):
            columns.check()
            assert first >= last
            last = first
            for warp in range(columns.warps):
                joined[block, first + warp] += rows_of_columns(columns, warp)
    return joined


@examples(60)
@given(trace=st.one_of(column_traces(), program_traces()), limit=LIMITS)
def test_the_pieces_of_a_block_are_the_block(trace, limit):
    assert join(trace, limit) == write_out(trace)


@examples(60)
@given(trace=column_traces(), limit=LIMITS)
def test_pieces_of_columns_keep_the_limit(trace, limit):
    for block in trace.blocks:
        for _, columns in split_block(trace, block, limit):
            assert len(columns.addresses) <= max(limit, WARP)


@examples(60)
@given(trace=program_traces(), limit=LIMITS)
def test_pieces_of_programs_exceed_the_limit_only_by_one_iteration(trace, limit):
    for block in trace.blocks:
        longest = max((len(segment.op) * WARP for segment in trace.block(block)), default=0)
        for _, columns in split_block(trace, block, limit):
            assert len(columns.addresses) <= max(limit, longest)
