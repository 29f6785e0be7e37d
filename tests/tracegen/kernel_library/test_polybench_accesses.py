"""Test the accesses of PolyBench/GPU's kernels against scalar versions: order, divergence, waits, repetition."""

from __future__ import annotations

import numpy as np
import pytest

import tracegen
from tests.support.scalar_polybench import PADDED, ROWS, L, S

CASES = [(name, None) for name in ROWS] + [
    ("2dconv", (8, 8, 1)),
    ("3dconv", (5, 7, 1)),
    ("fdtd2d.1", (16, 4, 1)),
    ("fdtd2d.3", (7, 3, 1)),
    ("corr.corr", (20, 1, 1)),
    ("covar.reduce", (16, 16, 1)),
    ("gesummv", (33, 1, 1)),
    ("gramschmidt.3", (64, 1, 1)),
    ("syrk", (16, 16, 1)),
]


def accesses_by_thread(trace):
    """Return {global (x, y): [(op, address), ...]} of a trace, in program order."""
    c, launch = trace.columns, trace.launch
    c.check()
    found = {}
    for w in range(c.warps):
        block, warp = divmod(w, launch.block_warps)
        for row in range(c.warp_start[w], c.warp_start[w + 1]):
            addresses = iter(c.addresses[c.address_start[row] : c.address_start[row + 1]].tolist())
            for lane in (lane for lane in range(32) if int(c.mask[row]) >> lane & 1):
                thread = warp * 32 + lane
                assert thread < launch.block_threads
                x = block % launch.grid[0] * launch.block[0] + thread % launch.block[0]
                y = block // launch.grid[0] * launch.block[1] + thread // launch.block[0]
                found.setdefault((x, y), []).append((int(c.op[row]), next(addresses)))
    return found


@pytest.mark.parametrize(("name", "block"), CASES)
def test_every_thread_makes_the_accesses_of_its_row_in_order(name, block):
    check_every_access(name, block, *ROWS[name])


@pytest.mark.parametrize("name", PADDED)
def test_padded_kernels_have_the_layout_of_the_cuda_source(name):
    check_every_access(name, None, PADDED[name], {**ROWS[name][1], "PAD": 1})


def check_every_access(name, block, scalar, sizes):
    trace = tracegen.kernel(name, block=block, **sizes)
    base = {array.name: array.base for array in trace.launch.arrays}
    extent = {array.name: array.bytes for array in trace.launch.arrays}
    found = accesses_by_thread(trace)
    width, height = (trace.launch.grid[d] * trace.launch.block[d] for d in (0, 1))
    for y in range(height):
        for x in range(width):
            wanted = list(scalar(x=x, y=y, **sizes))
            assert all(0 <= 4 * index < extent[array] for _, array, index in wanted)
            assert found.pop((x, y), []) == [(op, base[array] + 4 * index) for op, array, index in wanted]
    assert not found


def test_lanes_of_a_diverged_warp_execute_the_branches_one_after_the_other():
    trace = tracegen.kernel("fdtd2d.1", block=(16, 2, 1), NX=2, NY=16)
    c = trace.columns
    assert c.mask.tolist() == [0xFFFF] * 2 + [0xFFFF0000] * 4
    assert c.op.tolist() == [L, S, L, L, L, S]


def test_call_sites_have_a_pc_of_their_own_that_does_not_depend_on_the_block():
    trace = tracegen.kernel("2dconv", NI=70, NJ=70)
    programs = [{tuple(s.pc.tolist()) for s in trace.block(b)} for b in trace.blocks]
    pcs = {pc for program in programs for pc in program}
    assert len(pcs) == 1
    assert len(set(next(iter(pcs)))) == 10


def test_stores_wait_for_the_loads_since_the_store_before_and_loads_for_nothing():
    first, loop = tracegen.kernel("atax.1", NX=256, NY=8).block(0)
    assert first.needs.tolist() == [[0]] * 8
    assert loop.trips == 8
    assert loop.needs.tolist() == [[0, 0, 0b11]] * 8
    assert loop.loop_exit.tolist() == [True, True, False]


def test_the_first_iteration_stands_alone_where_its_store_waits_for_a_load_before_the_loop():
    first, peeled, loop = tracegen.kernel("mvt.1", N=64).block(0)
    assert (first.trips, peeled.trips, loop.trips) == (1, 1, 63)
    assert peeled.needs[0].tolist() == [0, 0, 0b111]
    assert loop.needs[0].tolist() == [0, 0, 0b11]


def test_a_sum_in_a_register_is_waited_for_body_by_body_and_without_bodies_when_it_is_stored():
    *_, store = tracegen.kernel("gramschmidt.1", NI=100, NJ=4).block(0)
    assert store.needs[0].tolist() == [0b1111]
    _, store = tracegen.kernel("gramschmidt.1", NI=100, NJ=4, unroll="none").block(0)
    assert store.needs[0].tolist() == [(1 << 64) - 1]


def test_a_block_of_the_largest_kernel_stays_small():
    program = tracegen.kernel("corr.corr", M=600, N=2048).block(0)
    held = {id(a): a.nbytes for s in program for a in (s.base, s.mask, s.needs, s.pc, s.op, s.step)}
    accesses = 32 * sum(s.instructions for s in program)
    assert sum(held.values()) < accesses // 100


def test_running_a_block_twice_gives_the_same_program():
    trace = tracegen.kernel("gesummv", N=300)
    for one, two in zip(trace.block(1), trace.block(1), strict=True):
        assert one.trips == two.trips
        for name in ("pc", "needs", "mask", "base", "step"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
