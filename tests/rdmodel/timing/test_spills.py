"""Spilled registers: where the kernel has no room for its values, and the time that their accesses take."""

from __future__ import annotations

import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel import presets
from rdmodel.gpu.carveout import fit_to_launch
from rdmodel.gpu.config import replace
from rdmodel.gpu.register_use import with_registers
from rdmodel.timing.spills import add_spill_traffic, cyclic_miss_share, phases_of_spills, with_spills
from rdmodel.timing.traffic import LaunchTraffic
from rdmodel.trace import Launch, RegisterUse, Trace, Work
from rdmodel.trace.caching import CachedTrace
from rdmodel.trace.registers import ASSEMBLED
from tests.support.examples import examples
from tests.support.ptx_kernels import module_of
from tracegen import cuda
from tracegen.ptx.emulator import emulated_launch
from tracegen.ptx.registers.liveness import crowded_instructions, live_registers

A100 = presets.gpu("a100-40g")

SUMS = 24
LOOP = f"""
.version 8.0 .target sm_80 .address_size 64
.visible .entry sums(.param .u64 out, .param .u32 n) {{
  .reg .b64 %q<4>; .reg .b32 %r<4>; .reg .f32 %f<{SUMS + 2}>; .reg .pred %p<2>;
  ld.param.u64 %q1, [out]; ld.param.u32 %r1, [n]; mov.u32 %r2, 0;
  {"".join(f"mov.f32 %f{at}, 0f00000000;" for at in range(1, SUMS + 1))}
$next:
  {"".join(f"fma.rn.f32 %f{at}, %f{at}, %f{at}, %f{at};" for at in range(1, SUMS + 1))}
  add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra $next;
  {"".join(f"add.f32 %f1, %f1, %f{at};" for at in range(2, SUMS + 1))}
  st.global.f32 [%q1], %f1; ret;
}}
"""
ITERATIONS = 100


def make_trace(blocks: int = 108) -> Trace:
    return cuda.trace(LOOP, "sums", blocks, 64, ["float[64]:zeros", ITERATIONS])


def spilling(loads: int, stores: int, registers: int = 20, frame: int = 0):
    """Let the assembler say that a kernel spills so many bytes."""
    use = RegisterUse(registers, ASSEMBLED, spill_stores=stores, spill_loads=loads, spill_frame=frame)
    return patch.object(emulated_launch, "count_registers", lambda *_: use)


def test_values_are_spilled_where_more_are_live_than_there_are_registers():
    module = module_of(LOOP)
    live = live_registers(module, "sums")
    crowded = crowded_instructions(live, SUMS)
    opcodes = [one.opcode for one in module.functions["sums"].body if id(one) in crowded]
    assert opcodes.count("fma") == SUMS
    assert "bra" in opcodes
    assert "st" not in opcodes
    most = crowded_instructions(live, 255)
    assert 0 < len(most) <= len(opcodes)


def test_the_spills_of_a_loop_are_repeated_with_it():
    trace = make_trace()
    assert trace.spills(0) == (0.0, 0.0)  # an estimate of registers knows no spills
    with spilling(loads=40, stores=8):
        loads, stores = trace.spills(0, (8, 0))
    warps = 2
    assert 0.5 * ITERATIONS * warps * 10 < loads < ITERATIONS * warps * 10
    assert stores == pytest.approx(loads / 5)


def test_the_registers_that_a_user_gives_belong_to_other_code():
    trace, _ = with_registers(make_trace(), A100, 100)
    with spilling(loads=40, stores=8):
        assert trace.spills(0, (8, 0)) == (0.0, 0.0)
    with spilling(loads=40, stores=8, frame=8):
        assert trace.spill_frame((8, 0)) == 0


def test_a_cached_trace_has_the_spills_of_its_original():
    with spilling(loads=40, stores=8):
        trace = make_trace()
        assert CachedTrace(trace).spills(0, (8, 0)) == trace.spills(0, (8, 0)) != (0.0, 0.0)
    with spilling(loads=40, stores=8, frame=8):
        trace = make_trace()
        assert CachedTrace(trace).spill_frame((8, 0)) == trace.spill_frame((8, 0)) == 8


def test_a_spilled_register_of_a_warp_is_a_line_of_local_memory():
    work = with_spills(Work(blocks=1, warps=2, instructions={"load_local": 3}), (10.0, 4.0), 32)
    assert (work.instructions["load_local"], work.instructions["store_local"]) == (13, 4)
    assert (work.requests["load_local"], work.tag_lookups["store_local"]) == (10, 4)
    assert (work.sectors["load_local"], work.sectors["store_local"]) == (40, 16)
    same = Work(blocks=1, warps=2)
    assert with_spills(same, (0.0, 0.0), 32) is same


def test_a_warp_waits_for_each_load_of_a_spilled_register():
    (phase,) = phases_of_spills((20.0, 6.0), 2, 33.0)
    assert phase[:3] == (10 * 33.0 + 3, 13.0, 0.0)
    assert phases_of_spills((0.0, 0.0), 2, 33.0) == []


def test_a_kernel_that_spills_takes_longer_by_the_latency_of_its_loads():
    with spilling(loads=0, stores=0):
        without = rd.time(make_trace(), A100)
    with spilling(loads=40, stores=0):
        trace = make_trace()
        found = rd.time(trace, A100)
        loads, _ = trace.spills(0, (8, 0))
    assert found.cycles - without.cycles == pytest.approx(loads / 2 * A100.core.hit_latency, rel=0.05)
    assert found.work.instructions["load_local"] == pytest.approx(loads)
    times = []
    for stored in (0, 40, 400):
        with spilling(loads=40, stores=stored):
            times.append(rd.time(make_trace(), A100).cycles)
    assert np.all(np.diff(times) > 0)


def test_a_trace_that_is_not_emulated_has_no_spills():
    trace = tracegen.kernel("gemm", NI=32, NJ=32, NK=32)
    assert trace.spills(0, (8, 0)) == (0.0, 0.0)
    assert trace.spill_frame((8, 0)) == 0


# ---- frames that exceed the caches


@pytest.mark.parametrize("size", [0.5, 1.0, 1.1, 1.5, 3.0])
def test_a_cache_that_replaces_at_random_misses_with_the_share_of_the_equation(size):
    rng, lines, ways = np.random.default_rng(7), int(400 * size), 400
    held = np.full(ways, -1)
    place = np.full(lines, -1)
    missed = 0
    passes = 60
    for one in range(passes):
        for line in range(lines):
            if place[line] < 0:
                missed += one >= passes // 2
                way = rng.integers(ways) if one or line >= ways else line
                if held[way] >= 0:
                    place[held[way]] = -1
                held[way], place[line] = line, way
    assert missed / (lines * (passes - passes // 2)) == pytest.approx(cyclic_miss_share(size), abs=0.03)


@given(st.floats(1.0, 700.0), st.floats(1.0, 1.5))
@examples(50)
def test_more_data_miss_more_often(size, factor):
    share = cyclic_miss_share(size)
    assert 0 <= share <= cyclic_miss_share(size * factor) <= 1
    assert share == pytest.approx(1 - math.exp(-share * size), abs=1e-6)


NO_TRAFFIC = LaunchTraffic(
    missing_share=0.0,
    fetching_share=0.0,
    l2_read_bytes=1e6,
    l2_write_bytes=0.0,
    dram_read_share=0.0,
    dram_wait_share=0.0,
    dram_bytes=1e5,
)


def spilled(frame: int, gpu: rd.GPU = A100, blocks: int = 10_000) -> LaunchTraffic:
    """Return the traffic with 100 loads and 50 stores in a block of 256 threads, 8 of which are resident."""
    launch = Launch(kernel="k", grid=(blocks, 1, 1), block=(256, 1, 1), registers=32)
    return add_spill_traffic(NO_TRAFFIC, launch, gpu, (100.0, 50.0), frame)


L1_BYTES = fit_to_launch(A100, Launch(kernel="k", grid=(1, 1, 1), block=(256, 1, 1), registers=32)).l1.size
"""The L1 beside these launches, which have no shared memory."""


def test_frames_that_fit_into_the_l1_add_nothing():
    assert spilled(0) is NO_TRAFFIC
    assert spilled(L1_BYTES // 2048) == NO_TRAFFIC


def test_loads_of_frames_beyond_the_l1_read_the_l2():
    read = 100 * 128 * 10_000
    found = spilled(180)  # 360 KB on an SM, 38 MB on all
    assert found.l2_read_bytes == pytest.approx(1e6 + read * cyclic_miss_share(180 * 2048 / L1_BYTES))
    assert found.l2_write_bytes == 0.0  # the stores are in it already
    small = A100.replace(l2=replace(A100.l2, partitions=1))
    assert spilled(180, small).dram_bytes == 1e5


def test_an_l1_that_does_not_serve_local_memory_has_no_frames():
    bare = A100.replace(l1=replace(A100.l1, caches=("nc",)))
    assert spilled(4, bare).l2_read_bytes == 1e6 + 100 * 128 * 10_000


def test_frames_beyond_the_l2_go_to_the_dram_and_back():
    found = spilled(1000)
    size = 1.5 * 1000 * 2048 * 108 / (A100.l2.size * A100.l2.slices)  # half of the data is in two partitions
    moved = found.l2_read_bytes - 1e6 + 50 * 128 * 10_000
    assert found.dram_bytes == pytest.approx(1e5 + moved * cyclic_miss_share(size))
    few = spilled(1000, blocks=10)  # blocks of ten SMs
    assert few.dram_bytes == 1e5


def test_a_kernel_whose_frames_exceed_the_caches_takes_longer():
    times = []
    for frame in (0, 40, 4000, 40_000):
        with spilling(loads=4000, stores=4000, frame=frame):
            times.append(rd.time(make_trace(blocks=10_000), A100).cycles)
    assert times[0] == times[1]
    assert times[1] < times[2] < times[3]
