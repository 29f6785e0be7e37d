"""Test the recorded loops of kernel functions against their iterations written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.simt_traces import needs, rows, run, same_columns

BODY = st.lists(
    st.tuples(
        st.sampled_from(["load", "load", "store", "atomic", "wait", "barrier", "gap", "gather"]),
        st.integers(-3, 3),  # times the lane
        st.integers(-3, 3),  # times the iteration
        st.integers(0, 5),
        st.integers(0, 3),  # which lanes: all, one warp, half of each warp, none
    ),
    max_size=6,
)


def perform(k, A, index, steps, j):
    """Make the accesses of `steps` in iteration `j`, every index written a little differently."""
    lane = k.x
    guards = (True, lane // 32 == 1, lane % 2 == 0, lane < 0)
    for at, (what, a, b, c, guard) in enumerate(steps):
        with k.where(guards[guard]):
            place = (j * b + a * lane) - (-c) + 700 if at % 2 else 700 + c + lane * a + b * (j + 1) - b
            if what == "gap":
                k.gap(c)
            elif what == "wait":
                k.wait()
            elif what == "barrier":
                k.barrier()
            elif what == "gather":
                k.load(A, place + index)
            else:
                getattr(k, what)(A, place)


def written_out(k, bounds, unroll):
    """Yield the iterations of a loop, and wait after each unrolled body."""
    left = range(*bounds)
    while left:
        body, left = (left, ()) if unroll == "none" else (left[:unroll], left[unroll:])
        yield from body
        if unroll != "none":
            k.wait()


@examples(150)
@given(
    before=BODY,
    body=BODY,
    after=BODY,
    trips=st.integers(0, 70),
    first=st.integers(0, 3),
    step=st.integers(1, 2),
    unroll=st.sampled_from([4, 1, 3, 64, "none"]),
)
def test_a_recorded_loop_equals_its_iterations_written_out(before, body, after, trips, first, step, unroll):
    def kernel(k, A, B, iterations):
        index = k.load(B, k.x)
        perform(k, A, index, before, 0)
        for j in iterations(k):
            perform(k, A, index, body, j)
        perform(k, A, index, after, 0)

    arrays = {"A": 4096, "B": np.arange(64) % 7}
    bounds = (first, first + trips * step, step)
    looped = run(kernel, block=64, arrays=arrays, unroll=unroll, iterations=lambda k: k.range(*bounds))
    written = run(kernel, block=64, arrays=arrays, iterations=lambda k: written_out(k, bounds, unroll))
    same_columns(looped, written, but=("loop_exit",))
    assert len(looped.block(0)) <= 5  # before, iterations that wait for other loads, the bodies, the last ones, after
    assert not written.columns.loop_exit.any()


DENSE = {
    "division": lambda k, j, A, T: k.load(A, (j // 2) + k.x),
    "remainder": lambda k, j, A, T: k.load(A, j % 3 + k.x),
    "a coefficient per lane": lambda k, j, A, T: k.load(A, j * k.x),
    "a product of iterations": lambda k, j, A, T: k.load(A, j * j),
    "a NumPy table": lambda k, j, A, T: k.load(A, T[j]),
    "a Python list": lambda k, j, A, T: k.load(A, T.tolist()[j]),
    "np.take": lambda k, j, A, T: k.load(A, np.take(T, j) + k.x),
    "a float": lambda k, j, A, T: k.load(A, np.floor(j * 0.5).astype(int) if isinstance(j, int) else np.int64(j // 2)),
}


@pytest.mark.parametrize("name", DENSE)
def test_what_is_not_affine_runs_iteration_by_iteration(name):
    body = DENSE[name]
    table = np.array([5, 3, 8, 1, 1, 0, 9])

    def kernel(k, A, iterations):
        for j in iterations(k):
            k.load(A, j)
            body(k, j, A, table)
            k.store(A, j)

    looped = run(kernel, iterations=lambda k: k.range(7))
    written = run(kernel, iterations=lambda k: written_out(k, (0, 7), 4))
    same_columns(looped, written, but=("loop_exit",))
    c = looped.columns
    assert np.flatnonzero(c.loop_exit).tolist() == [18, 19]


def test_an_iteration_compared_in_a_guard_takes_effect_per_iteration():
    def kernel(k, A, n):
        for j in k.range(n):
            with k.where(j <= k.x):
                k.load(A, k.x)

    t = run(kernel, n=5)
    assert t.columns.mask.tolist() == [0xFFFFFFFF << j & 0xFFFFFFFF for j in range(5)]


def test_an_affine_loop_is_few_segments_whatever_its_length():
    def kernel(k, A, n):
        for j in k.range(n):
            k.load(A, 2 * (j + 1) - 2 + k.x)

    (segment,) = run(kernel, n=1000, unroll="none").block(0)
    assert (segment.trips, segment.step.tolist(), segment.loop_exit.tolist()) == (1000, [8], [True])
    first, bodies, rest = run(kernel, n=1000).block(0)
    assert (first.trips, bodies.trips, rest.trips) == (1, 249, 1)
    assert (bodies.step.tolist(), bodies.needs.tolist()) == ([32] * 4, [[0, 0, 0, 0b1111]])
    assert (rest.needs.tolist(), rest.loop_exit.tolist()) == ([[0, 0, 0]], [False, False, True])
    assert not bodies.loop_exit.any()


def test_a_variable_carried_to_the_next_iteration_is_carried():
    def kernel(k, A, n):
        at, last = k.x, 0
        for j in k.range(n):
            k.load(A, at)
            at = at + 4
            last = j
        k.store(A, at + last)

    t = run(kernel, n=5)
    assert [(a - (1 << 28)) // 4 for _, _, a in rows(t)] == [0, 4, 8, 12, 16, 20 + 4]


def test_in_place_operators_carry_as_well():
    def kernel(k, A, n):
        at = k.x
        for _ in k.range(n):
            k.load(A, at)
            at += 4

    assert [(a - (1 << 28)) // 4 for _, _, a in rows(run(kernel, n=3))] == [0, 4, 8]


def test_a_scratch_variable_and_a_sum_of_unknown_values_do_not_keep_a_loop_from_being_recorded():
    def kernel(k, A, n):
        total = 0
        for first in (0, 1):
            for j in k.range(n):
                place = first + j + k.x
                total = total + k.load(A, place)
        k.store(A, k.x)

    program = run(kernel, n=100, unroll="none").block(0)
    assert [s.trips for s in program] == [100, 100, 1]


def test_pointers_are_followed_through_a_loop():
    following = np.roll(np.arange(64), -3)

    def kernel(k, A):
        at = k.x
        for _ in k.range(4):
            at = k.load(A, at)

    t = run(kernel, arrays={"A": following})
    assert [(a - (1 << 28)) // 8 for _, _, a in rows(t)] == [0, 3, 6, 9]
    assert needs(t) == [0, 1, 1, 1]


def test_threads_with_bounds_of_their_own_leave_a_loop_one_by_one():
    starts = np.array([0, 2, 2, 5, 5])

    def kernel(k, starts, columns, n):
        with k.where(k.x < n):
            for at in k.range(k.load(starts, k.x), k.load(starts, k.x + 1)):
                k.load(columns, at)

    t = run(kernel, arrays={"starts": starts, "columns": 5}, n=4)
    assert t.columns.mask.tolist() == [0b1111, 0b1111, 0b0101, 0b0101, 0b0100]
    assert needs(t) == [0, 0, 0b11, 0, 0]
    assert t.columns.loop_exit.tolist() == [False] * 4 + [True]


@pytest.mark.parametrize(("bounds", "wanted"), [((5, 0, -2), [5, 3, 1]), ((3, 3), []), ((4,), [0, 1, 2, 3])])
def test_ranges_count_as_in_python(bounds, wanted):
    def kernel(k, A, lanes):
        for j in k.range(*([b + 0 * k.x for b in bounds[:2]] if lanes else bounds[:2]), *bounds[2:]):
            k.load(A, j)

    for lanes in (False, True):
        t = run(kernel, lanes=lanes)
        assert [(a - (1 << 28)) // 4 for _, _, a in rows(t)] == wanted


def test_break_ends_a_loop_after_the_iteration_it_is_in():
    def kernel(k, A):
        for j in k.range(10):
            k.load(A, j)
            if j == 2:
                break
        for j in k.range(10):
            k.load(A, j)
            break

    assert [(a - (1 << 28)) // 4 for _, _, a in rows(run(kernel))] == [0, 1, 2, 0]


def test_while_any_runs_until_the_last_thread_is_done():
    def kernel(k, A):
        left = k.x % 4
        while k.any(left > 0):
            with k.where(left > 0):
                k.load(A, left)
            left = left - 1

    t = run(kernel)
    assert t.columns.mask.tolist() == [0xEEEEEEEE, 0xCCCCCCCC, 0x88888888]


def test_gaps_go_to_the_next_memory_instruction_of_every_iteration():
    def kernel(k, A):
        k.gap(7)
        for _ in k.range(3):
            k.gap(2)
            k.load(A, k.x)
            k.load(A, k.x)
            k.gap(1)
        k.load(A, k.x)

    assert run(kernel).columns.gap.tolist() == [9, 0, 3, 0, 3, 0, 1]
