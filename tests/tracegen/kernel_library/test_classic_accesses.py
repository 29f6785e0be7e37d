"""Test the accesses of the kernels of the CUDA SDK, Rodinia and Parboil against scalar versions: order, waits, gaps."""

from __future__ import annotations

import pytest

import rdmodel as rd
import tracegen
from rdmodel.trace import Op
from tests.support.scalar_classic_kernels import BLOCKS, CASES, KERNELS, L, S, does_by_thread, threads


def check_every_access(trace, scalar, sizes):
    width = {"switch_membership": 1}
    places = {array.name: array for array in trace.launch.arrays}
    found = does_by_thread(trace)
    for key, t in threads(trace.launch):
        wanted = []
        for op, array, index in scalar(t, **sizes):
            offset = width.get(array, 4) * index
            assert not array or 0 <= offset < places[array].bytes
            wanted.append((op, places[array].base + offset if array else 0))
        assert found.pop(key, []) == wanted, (key, t)
    assert not found


@pytest.mark.parametrize(("name", "scalar", "sizes"), CASES, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(CASES)])
def test_every_thread_makes_its_accesses_and_passes_its_barriers_in_order(name, scalar, sizes):
    check_every_access(tracegen.kernel(name, **sizes), scalar, sizes)


@pytest.mark.parametrize(("name", "block"), BLOCKS)
def test_kernels_without_tiles_take_other_blocks(name, block):
    sizes = next(sizes for kernel, _, sizes in CASES if kernel == name)
    check_every_access(tracegen.kernel(name, block=(block,), **sizes), KERNELS[name], sizes)


def test_every_cell_of_the_alignment_is_filled_once_over_all_launches():
    tiles = 5
    launches = [("nw.1", d) for d in range(tiles)] + [("nw.2", d) for d in range(tiles - 1)]
    stored = []
    for name, diagonal in launches:
        trace = tracegen.kernel(name, N=tiles * 4, BLOCK_SIZE=4, DIAGONAL=diagonal)
        base = trace.launch.arrays[1].base
        stored += [(a - base) // 4 for does in does_by_thread(trace).values() for op, a in does if op == S]
    side = tiles * 4 + 1
    assert sorted(stored) == [y * side + x for y in range(1, side) for x in range(1, side)]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("hotspot", {"ROWS": 30, "COLS": 43, "PYRAMID_HEIGHT": 3}),
        ("convsep.rows", {"W": 256, "H": 4}),
        ("convsep.columns", {"W": 16, "H": 128}),
        ("blackscholes", {"OPT_N": 1000, "BLOCKS": 3}),
        ("srad.2", {"ROWS": 32, "COLS": 48}),
        ("fwt.1", {"LOG2N": 12, "ELEMENTARY_LOG2SIZE": 9}),
        ("fwt.2", {"LOG2N": 12, "ELEMENTARY_LOG2SIZE": 9, "STAGE": 1}),
    ],
)
def test_every_result_is_stored_once(name, sizes):
    trace = tracegen.kernel(name, **sizes)
    stored = [address for does in does_by_thread(trace).values() for op, address in does if op == S]
    assert len(set(stored)) == len(stored)
    written = [a for a in trace.launch.arrays if any(a.base <= s < a.base + a.bytes for s in stored)]
    assert 4 * len(stored) == sum(array.bytes for array in written)


def test_what_goes_through_shared_memory_has_to_arrive_first():
    (program,) = tracegen.kernel("srad.1", ROWS=16, COLS=16).block(0)
    b = int(Op.BARRIER)
    assert program.op.tolist() == [L, L, b, L, L, b, L, b, b, S, S, S, S, S]
    assert program.needs[0].tolist() == [0, 0, 0b11, 0, 0, 0b11, 0, 0b1, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("name", "sizes", "gaps"),
    [
        ("blackscholes", {"OPT_N": 256, "BLOCKS": 1}, [0, 0, 0, 50, 0] * 2),
        ("nw.1", {"N": 2, "BLOCK_SIZE": 2}, [0, 0, 0, 0, 0, 0, 0, 0, 12, 12, 12, 0, 0]),
        ("hotspot", {"ROWS": 4, "COLS": 4, "BLOCK_SIZE": 8}, [0, 0, 0, 74, 6, 42, 0]),
        ("fwt.1", {"LOG2N": 5}, [0, 0, 0, 0, 0, 31, 31, 31, 0, 0, 0, 0]),
        ("convsep.rows", {"W": 32, "H": 4, "RESULT_STEPS": 2}, [0, 0, 0, 33, 33]),
    ],
)
def test_what_is_computed_in_between_counts_as_instructions(name, sizes, gaps):
    c = tracegen.kernel(name, **sizes).columns
    assert c.gap[: c.warp_start[1]].tolist() == gaps


@pytest.mark.parametrize("name", sorted({name for name, _, _ in CASES}))
def test_every_kernel_can_be_predicted(name):
    sizes = next(sizes for kernel, _, sizes in CASES if kernel == name)
    result = rd.predict(tracegen.kernel(name, **sizes))
    assert 0 <= result.miss_rate <= 1
    assert result.transactions > 0


def test_point_major_features_cost_a_transaction_per_thread_and_feature_major_ones_one_per_warp():
    sizes = {"NPOINTS": 256, "NFEATURES": 64, "NCLUSTERS": 1}
    row, col = (rd.predict(tracegen.kernel(f"kmeans.{form}", **sizes)).transactions for form in ("row", "col"))
    assert (row, col) == (256 * 64, 256 * 64 // 32)
