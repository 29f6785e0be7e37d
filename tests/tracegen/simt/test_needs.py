"""Test the loads that the instructions of a kernel function wait for."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.trace import Op
from tests.support.examples import examples
from tests.support.simt_traces import needs, rows, run

ALL = (1 << 64) - 1


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
        k.barrier()
        with k.where(k.x < 32):
            j = k.load(index, k.x)
        k.barrier()
        k.load(A, i)
        k.load(A, j)

    t = run(kernel, block=64, arrays={"A": 4096, "index": np.arange(64)})
    assert needs(t, 0) == [0, 0b1, 0, 0b1, 0, 0]
    assert needs(t, 1) == [0, 0b1, 0, 0, 0]
    assert t.columns.op.tolist() == [0, 3, 0, 3, 0, 0, 0, 3, 3, 0, 0]


def test_a_barrier_waits_for_all_loads_that_nothing_has_waited_for():
    def kernel(k, A, index):
        i = k.load(index, k.x)
        for _ in range(2):
            k.load(A, k.x)
        k.load(A, i)
        with k.where(k.x < 32):
            k.barrier()
        k.store(A, k.x)

    t = run(kernel, block=64, arrays={"A": 4096, "index": np.arange(64)})
    assert needs(t, 0) == [0, 0, 0, 0b100, 0b0111, 0]
    assert needs(t, 1) == [0, 0, 0, 0b100, 0b0111]


def test_barriers_in_a_loop_wait_for_the_loads_of_their_iteration():
    def kernel(k, A):
        k.load(A, k.x)
        for j in k.range(5):
            k.load(A, k.x + 32 * j)
            k.barrier()
            k.load(A, k.x)

    t = run(kernel, arrays={"A": 4096})
    # The load behind a barrier, too, is waited for where the unrolled body of four iterations ends.
    assert needs(t) == [0, *[0, 0b11, 0] * 4, 0b1, 0b1, 0]


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


@examples(80)
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
        wanted = set(outstanding) if stalled or what == "barrier" else set()
        stalled = False
        if what == "store":
            wanted |= since_store
        if source is not None:
            wanted.add(source)
        wanted &= outstanding
        distance = {load: len(order) - order.index(load) - 1 for load in wanted}
        out.append(sum(1 << d for d in distance.values() if d < 64))
        outstanding -= wanted
        if what == "barrier":
            continue
        order.append(at)
        if what == "store":
            since_store = set()
        else:
            outstanding.add(at)
            since_store.add(at)
    return out
