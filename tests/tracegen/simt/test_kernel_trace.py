"""Test the traces of kernel functions: threads, arrays, program counters and blocks on demand."""

from __future__ import annotations

import pickle

import numpy as np

from rdmodel.trace import Space
from tests.support.simt_traces import run, same_columns, simple
from tracegen.simt.kernel_trace import Block, Buffer, trace


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


def test_a_subset_of_the_blocks_has_only_their_columns():
    t = trace(simple, grid=4, block=64, arrays={"A": 256}, blocks=[1, 3])
    assert t.columns.warps == 4
    assert t.columns.addresses[0] == (1 << 28) + 4 * 64
