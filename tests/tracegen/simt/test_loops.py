"""Test the recorded accesses of kernel functions, and the loads that their instructions wait for."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdmodel.errors import ConfigError, LaunchError, TraceError
from rdmodel.trace import Op, Space
from tracegen.simt.kernel_trace import Block, Buffer, trace

ALL = (1 << 64) - 1


def run(function, *, grid=1, block=32, arrays=None, **params):
    """Trace a kernel with one array A of 4096 elements unless told otherwise."""
    return trace(function, grid=grid, block=block, arrays=arrays or {"A": 4096}, **params)


def rows(t, warp=0):
    """Return (op, needs, first address, mask) of the instructions of one warp."""
    c = t.columns
    c.check()
    lo, hi = c.warp_start[warp], c.warp_start[warp + 1]
    return [
        (Op(c.op[i]), int(c.needs[i]), int(c.addresses[c.address_start[i]]) if c.op[i] != Op.BARRIER else 0)
        for i in range(lo, hi)
    ]


def needs(t, warp=0):
    return [need for _, need, _ in rows(t, warp)]


def same_columns(one, other, *, but=()):
    for name in one.columns.__dataclass_fields__:
        if name not in but:
            np.testing.assert_array_equal(getattr(one.columns, name), getattr(other.columns, name), err_msg=name)


# what an instruction waits for


def test_a_store_waits_for_the_loads_since_the_store_before_it():
    def kernel(k, A):
        k.load(A, k.x)
        k.load(A, k.x)
        k.store(A, k.x)
        k.load(A, k.x)
        k.store(A, k.x)
        k.store(A, k.x)

    assert needs(run(kernel)) == [0, 0, 0b11, 0, 0b1, 0]


def test_a_gather_waits_for_the_load_of_its_index_and_for_nothing_else():
    def kernel(k, A, index):
        i = k.load(index, k.x)
        k.load(A, k.x)
        k.load(A, 2 * i + 1)
        k.load(A, k.x)

    t = run(kernel, arrays={"A": 4096, "index": np.arange(32, dtype=np.int32)[::-1].copy()})
    assert needs(t) == [0, 0, 0b10, 0]
    assert rows(t)[2][2] == (1 << 28) + 4 * (2 * 31 + 1)


def test_a_load_that_was_waited_for_is_not_named_again():
    def kernel(k, A, index):
        i = k.load(index, k.x)
        k.load(A, i)
        k.load(A, i + 1)
        k.store(A, k.x)

    t = run(kernel, arrays={"A": 4096, "index": np.arange(32)})
    assert needs(t) == [0, 0b1, 0, 0b11]


def test_a_branch_on_loaded_data_is_waited_for_inside_it():
    def kernel(k, A, flag):
        f = k.load(flag, k.x)
        k.load(A, k.x)
        with k.where(f > 0):
            k.load(A, k.x)
        k.load(A, k.x)

    t = run(kernel, arrays={"A": 4096, "flag": np.arange(32) % 2})
    assert needs(t) == [0, 0, 0b10, 0]
    assert t.columns.mask.tolist() == [ALL & 0xFFFFFFFF, 0xFFFFFFFF, 0xAAAAAAAA, 0xFFFFFFFF]


def test_where_remembers_provenance_through_numpy_functions():
    def kernel(k, A, index):
        i = k.load(index, k.x)
        k.load(A, np.where(i > 3, np.minimum(i, 7), 0))

    t = run(kernel, arrays={"A": 4096, "index": np.arange(32)})
    assert needs(t) == [0, 0b1]
    assert t.columns.addresses[32:].tolist() == [(1 << 28) + 4 * (min(i, 7) if i > 3 else 0) for i in range(32)]


def test_wait_makes_the_next_instruction_of_each_warp_wait_for_all_its_loads():
    def kernel(k, A):
        k.load(A, k.x)
        k.load(A, k.x)
        k.wait()
        with k.where(k.x < 32):
            k.load(A, k.x)
        k.load(A, k.x)

    t = run(kernel, block=64)
    assert needs(t, 0) == [0, 0, 0b11, 0]
    assert needs(t, 1) == [0, 0, 0b11]


def test_instructions_that_a_warp_skipped_and_barriers_do_not_count():
    def kernel(k, A, index):
        i = k.load(index, k.x)
        with k.where(k.x < 32):
            k.load(A, k.x)
        k.barrier()
        k.load(A, i)

    t = run(kernel, block=64, arrays={"A": 4096, "index": np.arange(64)})
    assert needs(t, 0) == [0, 0, 0, 0b10]
    assert needs(t, 1) == [0, 0, 0b1]
    assert t.columns.op.tolist() == [0, 0, 3, 0, 0, 3, 0]


def test_loads_further_back_than_64_need_no_name():
    def kernel(k, A, index):
        i = k.load(index, k.x)
        for _ in range(70):
            k.load(A, k.x)
        k.load(A, i)
        k.store(A, k.x)

    t = run(kernel, arrays={"A": 4096, "index": np.arange(32)})
    assert needs(t)[-2:] == [0, ALL]


def test_an_atomic_waits_like_a_store_and_nothing_waits_for_it():
    def kernel(k, A):
        k.load(A, k.x)
        k.atomic(A, 0)
        k.store(A, k.x)

    t = run(kernel)
    assert needs(t) == [0, 0b1, 0]
    assert t.columns.op.tolist() == [Op.LOAD, Op.ATOMIC, Op.STORE]
    assert set(t.columns.addresses[32:64].tolist()) == {1 << 28}


STEP = st.tuples(
    st.sampled_from(["load", "gather", "store", "wait", "barrier"]),
    st.integers(0, 2),  # which warps run it: both, the first, the second
    st.integers(0, 100),  # which earlier load a gather takes its index from
)


@settings(max_examples=80, deadline=None)
@given(st.lists(STEP, max_size=90))
def test_needs_agree_with_a_set_of_outstanding_loads_per_warp(steps):
    def kernel(k, A):
        loaded = []
        for what, warps, which in steps:
            with k.where(warps == 0 or k.x // 32 == warps - 1):
                if what == "load":
                    loaded.append(k.load(A, k.x))
                elif what == "gather" and loaded:
                    loaded.append(k.load(A, loaded[which % len(loaded)] * 0 + k.x))
                elif what == "store":
                    k.store(A, k.x)
                elif what == "wait":
                    k.wait()
                elif what == "barrier":
                    k.barrier()

    t = run(kernel, block=64, arrays={"A": np.arange(4096)})
    for warp in (0, 1):
        assert needs(t, warp) == naive_needs(steps, warp)


def naive_needs(steps, warp):
    """Return the needs of one warp: sets of outstanding loads, identified by their place in `steps`."""
    order, outstanding, since_store, loads, out, stalled = [], set(), set(), [], [], False
    for at, (what, warps, which) in enumerate(steps):
        runs = warps == 0 or warps - 1 == warp
        if what == "gather" and not loads:
            continue
        source = loads[which % len(loads)] if what == "gather" else None
        if what in ("load", "gather"):
            loads.append(at)
        if not runs:
            continue
        if what == "wait":
            stalled = True
            continue
        if what == "barrier":
            out.append(0)
            continue
        wanted = set(outstanding) if stalled else set()
        stalled = False
        if what == "store":
            wanted |= since_store
        if source is not None:
            wanted.add(source)
        wanted &= outstanding
        distance = {load: len(order) - order.index(load) - 1 for load in wanted}
        out.append(sum(1 << d for d in distance.values() if d < 64))
        outstanding -= wanted
        order.append(at)
        if what == "store":
            since_store = set()
        else:
            outstanding.add(at)
            since_store.add(at)
    return out


# loops

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


@settings(max_examples=150, deadline=None)
@given(
    before=BODY,
    body=BODY,
    after=BODY,
    trips=st.integers(0, 70),
    first=st.integers(0, 3),
    step=st.integers(1, 2),
)
def test_a_recorded_loop_equals_its_iterations_written_out(before, body, after, trips, first, step):
    def kernel(k, A, B, iterations):
        index = k.load(B, k.x)
        perform(k, A, index, before, 0)
        for j in iterations(k):
            perform(k, A, index, body, j)
        perform(k, A, index, after, 0)

    arrays = {"A": 4096, "B": np.arange(64) % 7}
    bounds = (first, first + trips * step, step)
    looped = run(kernel, block=64, arrays=arrays, iterations=lambda k: k.range(*bounds))
    written = run(kernel, block=64, arrays=arrays, iterations=lambda k: iter(range(*bounds)))
    same_columns(looped, written, but=("loop_exit",))
    assert len(looped.block(0)) <= 4  # before, iterations that wait for other loads, the loop, after
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
    written = run(kernel, iterations=lambda k: iter(range(7)))
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


def test_an_affine_loop_is_one_segment_whatever_its_length():
    def kernel(k, A, n):
        for j in k.range(n):
            k.load(A, 2 * (j + 1) - 2 + k.x)

    (segment,) = run(kernel, n=1000).block(0)
    assert (segment.trips, segment.step.tolist(), segment.loop_exit.tolist()) == (1000, [8], [True])


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

    program = run(kernel, n=100).block(0)
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


# threads, arrays, launch


def test_threads_know_where_they_are():
    def kernel(k, A):
        assert isinstance(k, Block)
        plain = (k.thread_z * 3 + k.thread_y) * 5 + k.thread_x
        k.load(A, plain)
        k.load(A, ((k.block_z * 2 + k.block_y) * 2 + k.block_x) * 1 + 0 * k.x)
        k.load(A, (k.z * 6 + k.y) * 10 + k.x)

    t = run(kernel, grid=(2, 2, 2), block=(5, 3, 2))
    c = t.columns
    addresses = (c.addresses - (1 << 28)).reshape(8, 3, 30) // 4
    for block in range(8):
        bx, by, bz = block % 2, block // 2 % 2, block // 4
        for thread in range(30):
            x, y, z = thread % 5, thread // 5 % 3, thread // 15
            glob = ((bz * 2 + z) * 6 + by * 3 + y) * 10 + bx * 5 + x
            assert addresses[block, :, thread].tolist() == [thread, block, glob]
    assert set(c.mask.tolist()) == {(1 << 30) - 1}


def test_helpers_called_from_two_places_have_two_pcs():
    def helper(k, A):
        k.load(A, k.x)

    def kernel(k, A):
        helper(k, A)
        helper(k, A)
        k.load(A, k.x)

    assert len(set(run(kernel).columns.pc.tolist())) == 3


def test_two_loads_on_one_line_have_two_pcs():
    def kernel(k, A):
        return (k.load(A, k.x), k.load(A, k.x))

    assert len(set(run(kernel).columns.pc.tolist())) == 2


def test_elements_have_the_size_of_their_type_and_arrays_lie_one_after_the_other():
    def kernel(k, A, B, C):
        k.load(A, k.x)
        k.load(B, k.x, 1)
        k.load(C, k.x)

    arrays = {"A": Buffer(65, np.float64), "B": (32, 3), "C": np.zeros(32, dtype=np.uint8)}
    t = run(kernel, arrays=arrays)
    assert t.columns.size.tolist() == [8, 4, 1]
    assert [(a.base - (1 << 28), a.bytes) for a in t.launch.arrays] == [(0, 520), (768, 384), (1280, 32)]
    assert t.columns.addresses[33] == (1 << 28) + 768 + 4 * 4


def test_local_arrays_interleave_the_threads():
    def kernel(k, stack, n):
        for j in k.range(n):
            k.store(stack, j)

    t = run(kernel, grid=2, block=32, arrays={"stack": Buffer(3, space=Space.LOCAL)}, n=3)
    assert set(t.columns.space.tolist()) == {Space.LOCAL}
    wanted = [[(j * 64 + thread) * 4 for j in range(3) for thread in range(32 * b, 32 * b + 32)] for b in (0, 1)]
    assert (t.columns.addresses - (1 << 28)).tolist() == wanted[0] + wanted[1]


def test_masked_lanes_of_a_load_are_zero():
    def kernel(k, A, B):
        with k.where(k.x >= 30):
            value = k.load(A, k.x)
        k.load(B, value)

    t = run(kernel, arrays={"A": np.arange(100, 132), "B": 4096})
    assert ((t.columns.addresses[2:] - t.launch.arrays[1].base) // 4).tolist() == [0] * 30 + [130, 131]


def test_a_trace_runs_its_blocks_on_demand_and_survives_a_pickle():
    t = run(simple, grid=3)
    assert len(t) == 3 * 2
    again = pickle.loads(pickle.dumps(t))
    same_columns(t, again)
    assert [len(t.block(b)) for b in t.blocks] == [1, 1, 1]


def simple(k, A):
    k.load(A, k.x)
    k.store(A, k.x)


def test_a_subset_of_the_blocks_has_only_their_columns():
    t = trace(simple, grid=4, block=64, arrays={"A": 256}, blocks=[1, 3])
    assert t.columns.warps == 4
    assert t.columns.addresses[0] == (1 << 28) + 4 * 64


# mistakes


def outside_in_x(k, A):
    with k.where(k.x < 40):
        k.load(A, k.x, 0)


def outside_in_last_iteration(k, A):
    for j in k.range(9):
        k.store(A, 0, j)


def below(k, A):
    k.load(A, k.x - 1, 0)


def flat(k, A):
    k.load(A, 8 * 32)


def too_many(k, A):
    k.load(A, 0, 0, 0)


def unknown_index(k, A):
    k.load(A, k.load(A, 0, 0), 0)


def unknown_condition(k, A):
    with k.where(k.load(A, 0, 0) > 1):
        pass


def fraction(k, A):
    k.load(A, k.x * 0.5, 0)


def python_if(k, A):
    if k.x < 3:
        k.load(A, 0, 0)


def no_array(k, A):
    k.load(3, 0)


def reduction(k, A):
    np.add.reduce(k.x)


def sort(k, A):
    np.sort(k.x)


def no_step(k, A):
    for _ in k.range(0, 4, 0):
        pass


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (outside_in_x, "outside_in_x: thread (32, 0, 0): load of A[32, 0]: dimension 0 has indices 0 to 31"),
        (outside_in_last_iteration, "thread (0, 0, 0): store of A[0, 8]: dimension 1 has indices 0 to 7"),
        (below, "thread (0, 0, 0): load of A[-1, 0]: dimension 0 has indices 0 to 31"),
        (flat, "load of A[256]: it has indices 0 to 255"),
        (too_many, "too_many: 3 indices into A[32, 8]: must be 2, or one flat index"),
        (unknown_index, "array A holds no data: its elements cannot be an index or a condition"),
        (unknown_condition, "array A holds no data"),
        (fraction, "fraction: index into A is float64: must be a whole number"),
        (python_if, "cannot steer Python: use k.where, k.any or np.where"),
        (no_array, "3: must be an array of the kernel"),
        (reduction, "add.reduce: threads of a block cannot be combined: use k.any"),
        (sort, "np.sort: does not work thread by thread"),
        (no_step, "no_step: step=0: must be a whole number other than 0"),
    ],
)
def test_a_mistake_in_a_kernel_is_named(kernel, message):
    t = trace(kernel, grid=1, block=64, arrays={"A": (32, 8)})
    with pytest.raises(TraceError, match=re.escape(message)):
        t.block(0)


def test_a_loaded_value_does_not_lose_its_origin_in_a_numpy_table():
    def kernel(k, A):
        np.arange(10)[k.load(A, k.x)]

    with pytest.raises(TraceError, match=re.escape("use np.take(table, value)")):
        trace(kernel, grid=1, block=32, arrays={"A": np.arange(32)}).block(0)


def test_inactive_threads_may_be_anywhere():
    def kernel(k, A):
        with k.where(k.x < 10):
            for j in k.range(2):
                k.load(A, k.x, j - 0)

    t = trace(kernel, grid=1, block=64, arrays={"A": (10, 2)})
    assert t.columns.mask.tolist() == [0x3FF] * 2


def test_an_iteration_that_never_comes_is_not_out_of_bounds():
    def kernel(k, A):
        for j in k.range(10):
            k.load(A, j)
            if j == 3:
                break

    assert len(trace(kernel, grid=1, block=32, arrays={"A": 4})) == 4


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"block": 0}, LaunchError, "block=0: must be one to three numbers of at least 1"),
        ({"block": 1025}, LaunchError, "block=1025: 1025 threads, at most 1024 fit in a block"),
        ({"grid": (1, 2, 3, 4)}, LaunchError, "grid=(1, 2, 3, 4): must be one to three"),
        ({"grid": 1.5}, LaunchError, "grid=1.5: must be one to three whole numbers"),
        ({"arrays": {}}, ConfigError, "unknown parameter of simple 'A'"),
        ({"n": 4}, ConfigError, "unknown parameter of simple 'n'"),
        ({"arrays": {"A": 0}}, ConfigError, "array A: shape (0,) needs dimensions of at least 1"),
        ({"arrays": {"A": "x"}}, ConfigError, "array A: shape 'x' must be a whole number"),
        ({"arrays": {"A": Buffer(3, "S40")}}, ConfigError, "array A: elements of 40 bytes"),
        ({"base": -256}, ConfigError, "base=-256: must be a multiple of 256"),
        ({"blocks": 3}, TraceError, "blocks"),
    ],
)
def test_a_launch_that_cannot_be_is_refused(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        trace(simple, **{"grid": 1, "block": 32, "arrays": {"A": 64}, **options})


def test_only_functions_are_kernels():
    with pytest.raises(ConfigError, match="must be a Python function"):
        trace(print, grid=1, block=32, arrays={})
    with pytest.raises(ConfigError, match="needs a parameter for its block"):
        trace(lambda: None, grid=1, block=32, arrays={})
