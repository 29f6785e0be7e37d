"""Check the traffic that is sampled from one SM and from neighbouring blocks, and passes over banks."""

from dataclasses import replace

import numpy as np
import pytest

import rdmodel as rd
import tracegen
from rdmodel import presets
from rdmodel.gpu.overrides import override
from rdmodel.timing.neighbours import sample_traffic
from rdmodel.timing.passes import count_passes
from rdmodel.timing.traffic import fetching_share, missing_share, traffic_of
from rdmodel.trace import Columns, Op, Space, Trace
from rdmodel.trace.columns import slice_rows
from rdmodel.trace.counting import work_of_block
from rdmodel.trace.expansion import expand
from tests.support.naive_banks import naive_wavefronts
from tracegen import cuda

A4000 = presets.gpu("a4000")

STENCIL = """.version 8.0 .target sm_80 .address_size 64
.visible .entry stencil(.param .u64 a, .param .u64 b) {
  .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<4>;
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r1, 256, %r2;
  mov.u32 %r4, %ctaid.y; mad.lo.u32 %r5, %r4, 4096, %r3; mul.wide.u32 %rd3, %r5, 4;
  add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4]; ld.global.f32 %f2, [%rd4+16384]; add.f32 %f3, %f1, %f2; st.global.f32 [%rd5], %f3; ret;
}"""


def sampled(trace, gpu, resident):
    l1 = gpu.l1
    work = work_of_block(trace, 0, line=l1.line, sector=l1.sector_bytes, request_bytes=l1.request_bytes)
    return sample_traffic(trace, gpu, work, resident, {})


def test_a_row_that_two_rows_of_blocks_read_comes_from_dram_once():
    width, height = 4096, 2048
    arrays = [f"float[{width * (height + 1)}]:zeros", f"float[{width * height}]:zeros"]
    trace = cuda.trace(STENCIL, "stencil", (width // 256, height), 256, arrays)
    traffic = sampled(trace, A4000, 6)
    once = 4 * width * height
    assert traffic.l2_read_bytes == pytest.approx(2 * once, rel=0.01)
    assert traffic.l2_write_bytes == once
    # Each row is read twice, the second time from the L2.
    assert traffic.dram_bytes == pytest.approx(2 * once, rel=0.01)
    assert traffic.dram_read_share == pytest.approx(0.5, rel=0.01)
    # 288 blocks run together, 16 of them in a row: both rows of a block wait for DRAM, unless the first of the two
    # belongs to a block of the wave before, as in one of 18 rows.
    assert traffic.dram_wait_share == pytest.approx(1 - 0.5 / 18, rel=0.01)


ROWS = """.version 8.0 .target sm_80 .address_size 64
.visible .entry rows(.param .u64 a) {
  .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<4>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; mov.u32 %r2, %ctaid.x;
  mul.wide.u32 %rd3, %r2, STRIDE; add.u64 %rd1, %rd1, %rd2; add.u64 %rd1, %rd1, %rd3; mov.u32 %r3, 0;
L: ld.global.f32 %f1, [%rd1]; add.u64 %rd1, %rd1, 1024; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 32; @%p1 bra L; ret;
}"""
"""Each block reads 32 rows of 1 KB one after the other, STRIDE bytes behind those of the block before it."""


@pytest.mark.parametrize(("offset", "waiting"), [(0, 0.25), (4, 1.0), (16, 0.5), (31, 31 / 32)])
def test_only_blocks_that_read_data_at_about_the_same_time_wait_for_them_together(offset, waiting):
    # A block that reads rows more than 8 loads after another one finds them in the L2. Rows that all blocks read stay
    # there after the first of four waves.
    gpu = override(A4000, {"l2.size": "64K"})
    blocks = 4 * 288
    array = f"float[{256 * (offset * (blocks - 1) + 32)}]:zeros"
    trace = cuda.trace(ROWS.replace("STRIDE", str(1024 * offset)), "rows", blocks, 256, [array])
    assert sampled(trace, gpu, 6).dram_wait_share == pytest.approx(waiting, abs=0.03)


PRODUCT = """.version 8.0 .target sm_80 .address_size 64
.visible .entry product(.param .u64 a, .param .u64 b) {
  .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<4>;
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
  mov.u32 %r2, %ctaid.y; mul.wide.u32 %rd4, %r2, 1024; mov.u32 %r3, %ctaid.x; mul.wide.u32 %rd5, %r3, 1024;
  add.u64 %rd1, %rd1, %rd3; add.u64 %rd1, %rd1, %rd4; add.u64 %rd2, %rd2, %rd3; add.u64 %rd2, %rd2, %rd5;
  ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd2]; add.f32 %f3, %f1, %f2; ret;
}"""
"""Each block reads a row of a, which all blocks of its row read, and a row of b, which all of its column read."""


@pytest.mark.parametrize(("l2", "waiting"), [("4M", 1 - 1 / 2 * 7 / 8), ("16K", 1.0)])
def test_blocks_wait_for_what_earlier_waves_have_not_left_in_the_l2(l2, waiting):
    # 48 SMs with 6 blocks each: 288 of 2304 blocks run together, 6 rows of 48. A row of a is new in each wave; one of b
    # is new in the first of eight waves, if the L2 holds what a wave reads: 6 + 48 KB.
    gpu = override(A4000, {"l2.size": l2, "l2.slices": "1"})
    trace = cuda.trace(PRODUCT, "product", (48, 48), 256, [f"float[{48 * 256}]:zeros"] * 2)
    traffic = sampled(trace, gpu, 6)
    assert traffic.dram_wait_share == pytest.approx(waiting, abs=0.03)
    assert traffic.dram_read_share < 0.1 or l2 == "16K"


def test_sampled_traffic_is_near_that_of_the_whole_grid():
    trace, gpu = tracegen.kernel("gemm.tiled", NI=96, NJ=96, NK=64), presets.gpu("rtx3070")
    whole = traffic_of(rd.predict(trace, gpu, l2=True, work=None))
    found = sampled(trace, gpu, 4)
    assert found.l2_read_bytes == pytest.approx(whole.l2_read_bytes, rel=0.1)
    assert found.l2_write_bytes == pytest.approx(whole.l2_write_bytes, rel=0.01)
    assert found.dram_bytes == pytest.approx(whole.dram_bytes, rel=0.25)


def test_a_prediction_without_an_l2_has_no_traffic():
    with pytest.raises(rd.ConfigError, match="has no L2"):
        traffic_of(rd.predict(tracegen.kernel("atax.1", NX=64, NY=64), "a100"))


@pytest.mark.parametrize("name", ["gemm.tiled", "atax.1"])
def test_passes_are_those_of_the_lanes_one_by_one(name):
    trace = tracegen.kernel(name)
    block = trace.launch.blocks // 2
    source = trace.block(block)
    columns = source if isinstance(source, Columns) else expand(source, trace.launch.block_warps)
    by_hand = 0
    for row in range(len(columns)):
        lanes = [lane for lane in range(32) if columns.mask[row] >> lane & 1]
        places = columns.addresses[columns.address_start[row] : columns.address_start[row + 1]].tolist()
        if columns.op[row] != Op.BARRIER and columns.space[row] != Space.CONSTANT:
            by_hand += naive_wavefronts(dict(zip(lanes, places, strict=True)), int(columns.size[row]), False)[0]
        if row > 600:
            break
    else:
        assert count_passes(trace, block) == by_hand
        return
    part = Trace(replace(trace.launch, grid=(1, 1, 1)), slice_rows_of(columns, 602), trusted=True)
    assert count_passes(part, 0) == by_hand


def slice_rows_of(columns, rows):
    """The first rows of a block, all of them in its first warp."""
    cut = slice_rows(columns, 0, rows)
    return replace(cut, warp_start=np.array([0] + [rows] * columns.warps))


def test_loads_that_find_their_data_in_flight_wait_but_fetch_nothing():
    found = rd.predict(tracegen.kernel("gemm", NI=64, NJ=64, NK=64), "a100")
    assert found.latency_misses > 0
    assert 0 < fetching_share(found) < missing_share(found) <= 1
