"""Check the rate of the DRAM, how long loads wait for it, and which data that a block reads again come from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
from rdmodel import presets
from rdmodel.gpu.overrides import override
from rdmodel.timing.demands import between_directions, dram_bytes_per_cycle
from rdmodel.timing.latency import dram_queue_cycles
from rdmodel.timing.launch_time import USE_ERROR, dram_use
from rdmodel.timing.neighbours import sample_traffic
from rdmodel.timing.traffic import LaunchTraffic, traffic_of
from rdmodel.trace.counting import work_of_block
from tests.support.examples import examples
from tracegen import cuda

COPY = """.version 8.0 .target sm_80 .address_size 64
.visible .entry copy(.param .u64 to, .param .u64 from) {
  .reg .b64 %rd<9>; .reg .b32 %r<5>; .reg .f64 %f<4>;
  ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3; mul.wide.u32 %rd4, %r4, 8; add.u64 %rd5, %rd1, %rd4; add.u64 %rd6, %rd2, %rd4;
  ld.global.f64 %f1, [%rd6]; st.global.f64 [%rd5], %f1; ret;
}"""

TWICE = """.version 8.0 .target sm_80 .address_size 64
.visible .entry twice(.param .u64 a) {
  .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<4>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; mov.u32 %r2, %ctaid.x;
  mul.wide.u32 %rd4, %r2, BYTES; add.u64 %rd1, %rd1, %rd3; add.u64 %rd1, %rd1, %rd4; mov.u64 %rd2, %rd1; mov.u32 %r3, 0;
L: ld.global.f32 %f1, [%rd1]; add.u64 %rd1, %rd1, 1024; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, STEPS; @%p1 bra L;
  mov.u32 %r3, 0;
M: ld.global.f32 %f2, [%rd2]; STORE add.u64 %rd2, %rd2, 1024; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, STEPS;
  @%p1 bra M; ret;
}"""
"""Each block of 256 threads reads STEPS KB of its own, and then reads them again and may write them."""


@given(st.floats(0.1, 1), st.floats(0.1, 1), st.floats(0, 1))
@examples(50)
def test_a_number_of_the_dram_lies_between_those_of_one_direction_and_of_both(alone, mixed, written):
    found = between_directions(alone, mixed, written)
    assert min(alone, mixed) - 1e-9 <= found <= max(alone, mixed) + 1e-9
    assert found == pytest.approx(between_directions(alone, mixed, 1 - written))
    assert between_directions(alone, mixed, 0.0) == between_directions(alone, mixed, 1.0) == alone
    assert between_directions(alone, mixed, 0.5) == pytest.approx(mixed)


def test_a_quarter_of_writes_costs_three_quarters_of_what_a_half_costs():
    # An A100 reaches 1900 GB/s in one direction, 1740 in both alike, and 1790 for three reads and a write.
    assert between_directions(1900, 1740, 0.25) == pytest.approx(1780)


def traffic(written, waiting=1.0):
    return LaunchTraffic(
        missing_share=1.0, fetching_share=1.0, l2_read_bytes=1e6, l2_write_bytes=1e6, dram_read_share=1.0,
        dram_wait_share=waiting, dram_bytes=1e6, dram_written_bytes=1e6 * written,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["v100", "a100-80g", "h100-sxm", "a40"])
def test_loads_wait_longer_for_a_dram_that_is_used_and_longest_if_it_also_writes(name):
    gpu = presets.gpu(name)
    rates, _ = presets.rates_of(gpu)
    idle, half, full = (dram_queue_cycles(traffic(0.0), gpu, rates, use) for use in (0.0, 0.5, 1.0))
    assert (idle, half) == (0.0, pytest.approx(full / 4))
    assert full == pytest.approx(rates["dram_queue_latency"] * gpu.clock / 1000)
    assert full < dram_queue_cycles(traffic(0.5), gpu, rates, 1.0)
    assert dram_bytes_per_cycle(gpu, rates, 0.5) < dram_bytes_per_cycle(gpu, rates)


def copied(gpu, threads, size=1 << 21):
    """Return the time of a copy of doubles by blocks of so many threads."""
    return rd.time(cuda.trace(COPY, "copy", size // threads, threads, [f"float64[{size}]:zeros"] * 2), gpu)


def test_the_use_of_the_dram_is_the_one_for_which_its_loads_wait():
    gpu = presets.gpu("h200")
    found = copied(gpu, 256)
    assert found.bound == "latency"
    # A DRAM that always takes as long as it does at the use that comes out lets warps wait for the same time.
    use = dram_use(found)
    rates, _ = presets.rates_of(gpu)
    waited = dram_queue_cycles(found.traffic, gpu, rates, use)
    longer = gpu.dram.latency + round(waited)
    same = copied(
        override(
            gpu,
            {"dram.latency": str(longer), "rates.dram_queue_latency": "0", "rates.dram_mixed_queue_latency": "0"},
        ),
        256,
    )
    assert found.terms["latency"] == pytest.approx(same.terms["latency"], rel=2 * USE_ERROR)


def test_a_dram_for_which_nothing_waits_is_as_fast_as_its_bytes():
    gpu = override(presets.gpu("h200"), {"rates.dram_queue_latency": "0", "rates.dram_mixed_queue_latency": "0"})
    assert copied(gpu, 256).cycles < copied("h200", 256).cycles
    assert copied(gpu, 256).bound == "DRAM"


@pytest.mark.parametrize("store", ["", "st.global.f32 [%rd2], %f2;"])
@pytest.mark.parametrize(("steps", "l2"), [(64, "256K"), (64, "1M"), (256, "1M"), (256, "4M")])
def test_rows_that_blocks_read_twice_come_twice_from_dram_if_the_l2_is_too_small(steps, l2, store):
    source = TWICE.replace("BYTES", str(1024 * steps)).replace("STEPS", str(steps)).replace("STORE", store)
    blocks = 256
    trace = cuda.trace(source, "twice", blocks, 256, [f"float[{256 * steps * blocks}]:zeros"])
    gpu = override(presets.gpu("rtx3070"), {"l2.size": l2, "l2.slices": "4", "sms": "8"})
    whole = traffic_of(rd.predict(trace, gpu, l2=True, model_sms="all", threads=None))
    work = work_of_block(trace, 0, line=gpu.l1.line, sector=gpu.l1.sector_bytes, request_bytes=gpu.l1.request_bytes)
    found = sample_traffic(trace, gpu, work, 6, {})
    assert found.dram_bytes == pytest.approx(whole.dram_bytes, rel=0.05)
    assert found.dram_written_bytes == pytest.approx(whole.dram_written_bytes, rel=0.05)
    # The rows of 48 blocks that run together fit in the L2 or not.
    read = (found.dram_bytes - found.dram_written_bytes) / (1024 * steps * blocks)
    assert read == pytest.approx(2.0 if 48 * 1024 * steps > gpu.l2.slices * gpu.l2.size else 1.0, rel=0.05)


def test_written_bytes_are_a_share_of_all():
    assert traffic(0.25).dram_written_share == 0.25
    nothing = LaunchTraffic(
        missing_share=0.0, fetching_share=0.0, l2_read_bytes=0.0, l2_write_bytes=0.0, dram_read_share=0.0,
        dram_wait_share=0.0, dram_bytes=0.0,
    )  # fmt: skip
    assert nothing.dram_written_share == 0.0
