"""Check what blocks find in the L2 of arrays that all blocks read in no order, against the L2 of the whole grid."""

from math import exp, log

import pytest

import rdmodel as rd
from rdmodel import presets
from rdmodel.gpu.overrides import override
from rdmodel.timing import rereading
from rdmodel.timing.neighbours import sample_traffic
from rdmodel.timing.traffic import traffic_of
from rdmodel.trace.counting import work_of_block
from tracegen import cuda

GATHER = """.version 8.0 .target sm_80 .address_size 64
.visible .entry gather(.param .u64 x, .param .u64 y) {
  .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<2>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r1, 256, %r2;
  mul.lo.u32 %r4, %r3, 2654435761; shr.u32 %r5, %r4, 15; xor.b32 %r4, %r4, %r5; mul.lo.u32 %r4, %r4, 2246822519;
  shr.u32 %r5, %r4, 13; xor.b32 %r4, %r4, %r5; and.b32 %r4, %r4, MASK;
  mul.wide.u32 %rd3, %r4, 4; add.u64 %rd3, %rd1, %rd3; ld.global.f32 %f1, [%rd3];
  mul.wide.u32 %rd4, %r3, 4; add.u64 %rd4, %rd2, %rd4; st.global.f32 [%rd4], %f1; ret;
}"""
"""Every thread copies a value from a random place of a table."""

BLOCKS = 2048


def traffic(table_bytes, l2):
    """Return the sampled traffic of a launch, and that of the whole grid."""
    values = table_bytes // 4
    source = GATHER.replace("MASK", str(values - 1))
    trace = cuda.trace(source, "gather", BLOCKS, 256, [f"float[{values}]:zeros", f"float[{BLOCKS * 256}]:zeros"])
    gpu = override(presets.gpu("rtx3070"), {"l2.size": l2, "l2.slices": "4"})
    whole = traffic_of(rd.predict(trace, gpu, l2=True, model_sms="all", threads=None))
    work = work_of_block(trace, 0, line=gpu.l1.line, sector=gpu.l1.sector_bytes, request_bytes=gpu.l1.request_bytes)
    return sample_traffic(trace, gpu, work, 6, {}), whole


@pytest.mark.parametrize(
    ("table", "l2"),
    [(1 << 18, "256K"), (1 << 20, "1M"), (1 << 20, "384K")],
    ids=["small", "fits", "fits-barely"],
)
def test_random_reads_of_a_table_come_from_dram_as_often_as_in_the_whole_grid(table, l2):
    found, whole = traffic(table, l2)
    # Nearly every read of a block is another sector: without the other blocks, all would come from DRAM.
    assert found.l2_read_bytes > 0.85 * BLOCKS * 256 * 32
    assert found.dram_read_share == pytest.approx(whole.dram_read_share, abs=0.05)


def test_a_table_that_nothing_displaces_is_read_once():
    assert rereading._missing_share(0.01, 1000.0, 0.0, 1000.0) == 0.0


@pytest.mark.parametrize("rate", [1e-4, 1e-2, 0.5])
@pytest.mark.parametrize("room", [1100.0, 2000.0, 1e5])
def test_data_stay_until_the_room_has_been_filled_once(rate, room):
    missing = rereading._missing_share(rate, 1000.0, 3.0, room)
    if missing > 1e-12:
        blocks = -log(missing) / rate
        assert 1000 * (1 - exp(-blocks * rate)) + 3 * blocks == pytest.approx(room, rel=1e-6)
