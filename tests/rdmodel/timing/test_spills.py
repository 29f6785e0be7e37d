"""Spilled registers: where the kernel has no room for its values, and the time that their accesses take."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

import rdmodel as rd
import tracegen
from rdmodel import presets
from rdmodel.gpu.register_use import with_registers
from rdmodel.timing.spills import phases_of_spills, with_spills
from rdmodel.trace import RegisterUse, Trace, Work
from rdmodel.trace.caching import CachedTrace
from rdmodel.trace.registers import ASSEMBLED
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


def spilling(loads: int, stores: int, registers: int = 20):
    """Let the assembler say that a kernel spills so many bytes."""
    use = RegisterUse(registers, ASSEMBLED, spill_stores=stores, spill_loads=loads)
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


def test_a_cached_trace_has_the_spills_of_its_original():
    with spilling(loads=40, stores=8):
        trace = make_trace()
        assert CachedTrace(trace).spills(0, (8, 0)) == trace.spills(0, (8, 0)) != (0.0, 0.0)


def test_a_spilled_register_of_a_warp_is_a_line_of_local_memory():
    work = with_spills(Work(blocks=1, warps=2, instructions={"load_local": 3}), (10.0, 4.0), 32)
    assert (work.instructions["load_local"], work.instructions["store_local"]) == (13, 4)
    assert (work.requests["load_local"], work.tag_lookups["store_local"]) == (10, 4)
    assert (work.sectors["load_local"], work.sectors["store_local"]) == (40, 16)
    same = Work(blocks=1, warps=2)
    assert with_spills(same, (0.0, 0.0), 32) is same


def test_a_warp_waits_for_each_load_of_a_spilled_register():
    (phase,) = phases_of_spills((20.0, 6.0), 2, 33.0)
    assert phase == (10 * 33.0 + 3, 13.0, 0.0)
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
    assert tracegen.kernel("gemm", NI=32, NJ=32, NK=32).spills(0, (8, 0)) == (0.0, 0.0)
