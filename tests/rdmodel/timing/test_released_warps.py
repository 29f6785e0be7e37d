"""Check the time of warps that wait for loads after a barrier: all at once in each iteration, or each on its own."""

import pytest

import rdmodel as rd
from rdmodel import presets
from rdmodel.gpu.latency import unloaded_latency
from tests.support.times import of_blocks
from tracegen import cuda

A100 = presets.gpu("a100-40g")
TRIPS, SUMS, WARPS = 100, 64, 8


def kernel(outside, inside):
    """Return a loop in which a warp loads, waits, adds independent numbers, and may wait at a barrier."""
    sums = " ".join(f"add.f32 %f{at}, %f{at}, %f99;" for at in range(SUMS))
    return f""".version 8.0 .target sm_80 .address_size 64 .visible .entry k(.param .u64 a) {{
      .reg .b64 %rd<5>; .reg .b32 %r<5>; .reg .pred %p; .reg .f32 %f<100>;
      ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; mov.u32 %r2, 0;
    L: .pragma "nounroll"; {inside} ld.global.cg.f32 %f99, [%rd1]; {sums}
      add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, {TRIPS}; @%p bra L; {outside} st.global.f32 [%rd1], %f0; ret; }}"""


def cycles(text):
    trace = cuda.trace(text, "k", A100.sms, 32 * WARPS, [f"float[{32 * WARPS}]:zeros"])
    return of_blocks(rd.time(trace, A100))


def test_with_a_barrier_in_each_iteration_nothing_overlaps_the_wait():
    latency = unloaded_latency(A100)
    # Two warps share a sub-core, whose units need two cycles for a sum of 32 lanes.
    busy = 2 * SUMS * WARPS / 4
    assert cycles(kernel("", "bar.sync 0;")) == pytest.approx(TRIPS * (latency + busy), rel=0.2)


def test_without_a_barrier_in_the_loop_one_warp_computes_while_another_one_waits():
    apart, together = cycles(kernel("bar.sync 0;", "")), cycles(kernel("", "bar.sync 0;"))
    busy = 2 * SUMS * WARPS / 4
    assert apart < together - 0.3 * TRIPS * busy
