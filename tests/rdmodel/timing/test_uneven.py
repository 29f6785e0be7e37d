"""Warps that execute more than others keep their block and their sub-core busy longer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel import presets
from rdmodel.timing.uneven import WarpLoads, warp_loads
from tests.support.examples import examples
from tracegen import cuda

GPU = "a100-40g"

TURNS = """
extern "C" __global__ void turns(float *a, int turns, int trips, int all) {
  float sum = a[threadIdx.x];
  for (int turn = 0; turn < turns; turn++) {
    if (all || threadIdx.x / 32 == turn % 4)
      for (int trip = 0; trip < trips; trip++) sum = sum * sum + 1.0f;
    a[threadIdx.x] = sum;
    __syncthreads();
  }
}
"""


def turns(turns, trips, every=0, blocks=108):
    """A kernel of blocks of four warps, one of which computes before each of the barriers, or every one of them."""
    return cuda.trace(TURNS, "turns", blocks, 128, ["float[128]:zeros", turns, trips, every])


def test_the_longest_path_takes_the_longest_warp_between_each_pair_of_barriers():
    # Each warp computes in one of four spans: all have the same instructions, and the path has those of all spans.
    each = warp_loads(turns(4, 500), 0)
    assert each.each == pytest.approx((1.0,) * 4, rel=0.01)
    assert each.path == pytest.approx(4.0, rel=0.05)
    # The first warp computes in the only span.
    first = warp_loads(turns(1, 5000), 0)
    assert first.each == pytest.approx((4.0, 0.0, 0.0, 0.0), abs=0.05)
    assert first.path == pytest.approx(4.0, abs=0.05)
    assert warp_loads(turns(4, 500, every=1), 0).path == pytest.approx(1.0, rel=0.01)


def test_a_block_takes_the_time_of_its_longest_path():
    one, four, every = (rd.time(turns(n, 500, all), GPU) for n, all in ((1, 0), (4, 0), (4, 1)))
    assert one.cycles - one.terms["launch"] > 500 * 4
    assert four.cycles - four.terms["launch"] == pytest.approx(4 * (one.cycles - one.terms["launch"]), rel=0.15)
    # Where all warps compute, each has a sub-core of its own.
    assert four.cycles == pytest.approx(every.cycles, rel=0.05)


def test_a_sub_core_with_longer_warps_bounds_the_throughput():
    # The longer warp of each block is in the first sub-core: it executes as much as all four would.
    gpu = presets.gpu(GPU)
    uneven, even = (rd.time(turns(1, 2000, every, gpu.sms * 64), gpu) for every in (0, 1))
    assert uneven.terms["issue slots"] == pytest.approx(even.terms["issue slots"] / 4, rel=0.05)
    assert uneven.cycles == pytest.approx(even.cycles, rel=0.1)


@examples(100)
@given(st.integers(1, 12), st.integers(1, 5), st.sampled_from([1, 2, 4]))
def test_equal_warps_are_dealt_to_sub_cores_in_turns(warps, blocks, copies):
    total = warps * blocks
    assert WarpLoads.even(warps).sub_cores(blocks, copies) == pytest.approx(total / -(-total // copies))


@examples(100)
@given(st.lists(st.floats(0.1, 8), min_size=1, max_size=9), st.integers(1, 4), st.sampled_from([1, 2, 4]))
def test_the_busiest_sub_core_decides(each, blocks, copies):
    busy = [0.0] * copies
    for slot, load in enumerate(each * blocks):
        busy[slot % copies] += load
    assert WarpLoads(tuple(each)).sub_cores(blocks, copies) == pytest.approx(sum(busy) / max(busy))


def test_loads_of_blocks_count_by_the_number_of_blocks_that_they_stand_for():
    mean = WarpLoads.mean([WarpLoads((2.0, 0.0), 2.0), WarpLoads((1.0, 1.0), 1.0)], [1.0, 3.0])
    assert mean == WarpLoads((1.25, 0.75), 1.25)


def test_warps_of_a_program_are_even():
    """Python kernels record a program for all warps of a block, and no instructions of single ones."""
    assert warp_loads(tracegen.kernel("gemm", NI=64, NJ=64, NK=64), 0) == WarpLoads.even(8)
