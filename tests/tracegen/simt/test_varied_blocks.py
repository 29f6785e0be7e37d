"""Test batches whose blocks leave out instructions: each has the program that it has on its own."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.batches import alone, assert_same, assert_same_blocks, counted, kernel_trace
from tests.support.examples import examples


def halos(k, A):
    """Blocks at both ends have no halo on one side; what comes before and behind it waits and has gaps."""
    at = k.load(A, k.x % 4096)
    k.gap(2)
    with k.where(k.block_x > 0):
        k.load(A, (k.x - 1) % 4096)
        k.gap(5)
    with k.where((k.block_x < 11) & (k.thread_x > 2)):
        k.gap(7)
        k.load(A, (k.x + 1) % 4096)
        k.wait()
    with k.where(k.block_x % 4 == 3):
        k.barrier()
    k.store(A, (at + k.x) * 0)


def loops_of_some_blocks(k, A):
    with k.where(k.block_x % 3 > 0):
        for j in k.range(6):
            k.load(A, k.thread_x + j)
            k.store(A, k.thread_x)
        k.store(A, k.thread_x)
    for j in k.range(6):
        k.load(A, k.thread_x + j)


def parts_of_loops_of_some_blocks(k, A):
    for j in k.range(6):
        k.load(A, k.thread_x + j)
        with k.where(k.block_x > 4):
            k.load(A, k.thread_x)


def loops_of_some_blocks_that_carry_a_state(k, A):
    at = 0
    with k.where(k.block_x > 4):
        for _ in k.range(4):
            k.load(A, k.thread_x + at)
            at = at + 3
    k.store(A, k.thread_x + at)


def gaps_of_some_blocks_before_a_loop(k, A):
    with k.where(k.block_x > 4):
        k.gap(4)
    for j in k.range(4):
        k.load(A, k.thread_x + j)


def gaps_of_a_loop_of_some_blocks(k, A):
    for j in k.range(4):
        with k.where(k.block_x > 4):
            k.load(A, k.thread_x + j)
        k.gap(2)
    k.load(A, k.thread_x)


def data_of_iterations_in_some_blocks(k, A):
    for j in k.range(9):
        with k.where(k.block_x > 4):
            k.load(A, k.thread_x + j)
        k.load(A, k.thread_x)


def variable_of_a_loop_of_some_blocks(k, A):
    with k.where(k.block_x > 4):
        for j in k.range(9):
            k.store(A, k.thread_x + j)
    k.store(A, k.thread_x + j)


def loops_of_different_length(k, A):
    """A thread keeps what it has found when it leaves the loop; loads of last iterations are marked in each block."""
    found = k.x * 0
    k.gap(1)
    for j in k.range(k.thread_x % 3 + k.block_x % 6):
        k.gap(3)
        at = k.load(A, k.thread_x + j) + j
        with k.where(at % 2 > 0):
            k.store(A, at)
        found = np.where(j < k.thread_x % 3 + k.block_x % 6, at, found)
    k.load(A, found)


def loops_that_some_blocks_leave_out(k, A):
    for j in k.range(k.thread_x % 3 * (k.block_x % 4), unroll="none"):
        for i in k.range(2):
            k.load(A, k.thread_x + i)
        k.load(A, k.thread_x + j)
    for j in k.range(8):
        k.load(A, k.thread_x + j)


def loops_in_loops_of_different_length(k, A):
    for i in k.range(3):
        for j in k.range(k.thread_x % 3 * (k.block_x % 4)):
            k.load(A, k.thread_x + j)
        k.load(A, k.thread_x + i)


def long_code_of_some_blocks(k, A):
    for at in range(1500):
        with k.where((k.block_x > 7) | (at % 5 > 0)):
            k.load(A, k.thread_x + at % 7)
    for j in k.range(4):
        k.load(A, k.thread_x + j)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (halos, {"block": 96, "arrays": {"A": np.arange(4096, dtype=np.int32)}}),
        (loops_of_some_blocks, {"block": 64}),
        (parts_of_loops_of_some_blocks, {}),
        (loops_of_some_blocks_that_carry_a_state, {}),
        (gaps_of_some_blocks_before_a_loop, {}),
        (gaps_of_a_loop_of_some_blocks, {}),
        (data_of_iterations_in_some_blocks, {"arrays": {"A": np.zeros(4096, np.int32)}}),
        (variable_of_a_loop_of_some_blocks, {}),
        (loops_of_different_length, {"block": 64, "arrays": {"A": np.zeros(4096, np.int32)}}),
        (loops_that_some_blocks_leave_out, {}),
        (loops_in_loops_of_different_length, {"block": 64}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@pytest.mark.parametrize("order", [range(30), range(3, 30, 4), [5, 6, 7, 9, 11, 13, 15, 3, 2, 1, 0, 1, 2, 3, 4, 5]])
def test_each_block_has_the_program_that_it_has_on_its_own(function, options, order):
    trace = kernel_trace(function, **options)
    trace.announce(sorted(set(order)))
    assert_same_blocks(trace, order)


def test_long_code_is_cut_into_the_segments_that_a_block_has_on_its_own():
    trace = kernel_trace(long_code_of_some_blocks, grid=10)
    trace.announce(range(6, 10))
    assert_same_blocks(trace, range(6, 10))


@pytest.mark.parametrize(
    ("function", "array"),
    [
        (halos, np.zeros(4096, np.int32)),
        (loops_of_some_blocks, 128),
        (loops_of_different_length, np.zeros(4096, np.int32)),
        (long_code_of_some_blocks, 128),
    ],
)
def test_blocks_that_leave_out_masked_instructions_run_with_the_others(function, array):
    calls = []
    trace = kernel_trace(counted(function), grid=20, arrays={"A": array}, calls=calls)
    trace.announce(range(20))
    for block in range(20):
        trace.block(block)
    assert [np.size(call) for call in calls] == [20]


def test_blocks_inside_a_grid_share_a_program_beside_those_at_its_edges():
    trace = kernel_trace(halos, grid=12, arrays={"A": np.zeros(4096, np.int32)})
    trace.announce(range(12))
    shared = [getattr(trace.block(block), "shared", None) for block in range(12)]
    assert len({id(shared[block]) for block in (1, 2, 4, 5, 6, 8, 9, 10)}) == 1
    assert shared[1] is not None


# ---- any code


@st.composite
def conditions(draw):
    """Return a condition on the number of a block, and on that of a thread."""
    modulus, least = draw(st.integers(1, 4)), draw(st.integers(0, 3))
    threads = draw(st.sampled_from([0, 0, 20, 40]))
    return lambda k: (k.block_x % modulus >= least) & (k.thread_x >= threads)


@st.composite
def bounds(draw):
    """Return a number of iterations that depends on the block and on the thread."""
    of_block, of_thread = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    return lambda k: k.block_x % of_block * 2 + k.thread_x % of_thread - 1


UNROLL = st.sampled_from([None, 1, 2, "none"])
LEAVES = st.one_of(
    st.sampled_from(["load", "store", "barrier", "wait", "use"]).map(lambda op: (op,)),
    st.integers(1, 5).map(lambda n: ("gap", n)),
)
CODE = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.tuples(st.just("where"), conditions(), st.lists(parts, max_size=3)),
        st.tuples(st.just("range"), st.integers(0, 3), st.lists(parts, max_size=3)),
        st.tuples(st.just("lanes"), bounds(), st.lists(parts, min_size=1, max_size=3), UNROLL),
        st.tuples(st.just("loop"), st.integers(0, 70), st.lists(parts, min_size=1, max_size=3), st.booleans()),
    ),
    max_leaves=8,
)


def execute(k, A, code, loaded, at):
    """Execute code; `loaded` has the loaded values so far, and `at` is the position of the loops around it."""
    for name, *what in code:
        if name == "load":
            loaded.append(k.load(A, k.thread_x + at))
        elif name == "store":
            k.store(A, k.thread_x + at)
        elif name == "use":
            k.load(A, (k.thread_x + loaded[-1] * 0) if loaded else k.thread_x)
        elif name == "gap":
            k.gap(*what)
        elif name in ("barrier", "wait"):
            getattr(k, name)()
        elif name == "where":
            with k.where(what[0](k)):
                execute(k, A, what[1], loaded, at)
        elif name == "range":
            for j in range(what[0]):
                execute(k, A, what[1], loaded, at + j)
        elif name == "lanes":
            for j in k.range(what[0](k), unroll=what[2]):
                execute(k, A, what[1], list(loaded), at + j)
        else:
            j = 0
            for j in k.range(what[0]):
                execute(k, A, what[1], list(loaded), at + j)
            at = at + j if what[2] else at


@examples(150)
@given(st.lists(CODE, min_size=1, max_size=6), st.booleans())
def test_any_code_gives_each_block_the_program_that_it_has_on_its_own(code, with_data):
    array = np.zeros(4096, np.int32)
    if not with_data:
        array, code = 4096, [part for part in code if "use" not in str(part)]
    trace = kernel_trace(lambda k, A: execute(k, A, code, [], 0), grid=9, block=48, arrays={"A": array})
    made_alone = cache(alone(trace).block)
    trace.announce(range(9))
    for block in range(9):
        assert_same(trace.block(block), made_alone(block))
