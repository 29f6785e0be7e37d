"""Reads of bulk copies that several SMs make together are served once for each GPC."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
from rdmodel.timing.merging import GPCS, bulk_share, merged_share
from rdmodel.timing.sharing import Shared, Sharing
from tests.support.examples import examples
from tracegen import cuda

COPY = """.version 8.6 .target sm_90 .address_size 64
.visible .entry k(.param .u64 a, .param .u64 b) {
  .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .pred %p<9>;
  .shared .align 128 .b8 tile[65536]; .shared .align 8 .b64 full[1];
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;
  mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd3, %r2, 16384; add.u64 %rd4, %rd2, %rd3; mov.u32 %r3, tile;
  @%p1 mbarrier.init.shared.b64 [full], 1; bar.sync 0;
  @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [full], 32768;
  @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 16384, [full];
  @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3+16384], [%rd4], 16384, [full];
W: mbarrier.try_wait.parity.shared.b64 %p3, [full], 0; @!%p3 bra W;
  ld.shared.f32 %f1, [%r3]; st.global.f32 [%rd4], %f1; ret; }"""
"""Each block copies 16 KB that all blocks copy, and 16 KB of its own."""


def trace(blocks):
    arrays = [np.zeros(4096, np.float32), np.zeros(4096 * blocks, np.float32)]
    return cuda.trace(COPY, "k", blocks, 32, arrays)


def test_a_tile_that_all_blocks_copy_is_read_once_by_each_gpc():
    blocks = 132
    found = rd.time(trace(blocks), "h100-sxm").traffic
    assert found.l2_read_bytes == blocks * 32768
    served = GPCS * (1 - (1 - 1 / GPCS) ** blocks) * 16384 + blocks * 16384
    assert found.l2_read_bytes - found.l2_merged_bytes == pytest.approx(served, rel=0.02)
    assert found.l2_bytes == pytest.approx(served + found.l2_write_bytes, rel=0.02)


def test_the_share_of_bulk_copies_is_that_of_the_bytes_of_loads():
    assert bulk_share(trace(2), 0) == 1
    loads = cuda.trace(
        'extern "C" __global__ void k(float *a) { a[threadIdx.x] += 1; }', "k", 1, 32, ["float[64]:zeros"]
    )
    assert bulk_share(loads, 0) == 0
    assert rd.time(loads, "h100-sxm").traffic.l2_merged_bytes == 0


@given(st.floats(1, 500), st.integers(1, 200), st.floats(0, 1))
@examples(50)
def test_a_gpc_reads_what_its_blocks_share_once_and_other_data_each_time(readers, lag, share):
    sharing = Sharing(100, 0, [Shared(lag, 100 * share, 100 * share, 0, readers)], 0)
    merged = merged_share([sharing], 132)
    if lag >= 132:
        assert merged == 0
    else:
        assert 0 <= merged <= share
        # At least one read of R is served, and not more than one for each GPC.
        assert merged >= share * (1 - GPCS / readers) - 1e-9
        assert merged <= share * (1 - 1 / readers) + 1e-9


def test_data_that_blocks_read_at_different_times_are_not_merged():
    assert merged_share([Sharing(100, 0, [Shared(1, 100, 0, 0, 50)], 0)], 132) == 0
