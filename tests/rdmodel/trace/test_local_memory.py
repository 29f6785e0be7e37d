"""Local memory of blocks: a block takes over that of the place on an SM which it gets."""

from __future__ import annotations

import numpy as np
import pytest

import rdmodel as rd
import tracegen
from rdmodel import presets
from rdmodel.trace import Columns, Space
from rdmodel.trace.caching import CachedTrace, MaterialisedTrace
from rdmodel.trace.displaced import DisplacedTrace
from rdmodel.trace.local_memory import LocalMemory
from tracegen import cuda
from tracegen.ptx.registers import local_arrays

A100 = presets.gpu("a100-40g")

WORDS = 16
STACK = f"""
.version 8.0 .target sm_80 .address_size 64
.visible .entry stack(.param .u64 out) {{
  .reg .b64 %q<9>; .reg .b32 %r<9>; .reg .pred %p<3>; .local .align 4 .b8 depot[{4 * WORDS}];
  mov.u64 %q1, depot; mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
$fill:
  mul.wide.u32 %q2, %r2, 4; add.u64 %q3, %q1, %q2; st.local.u32 [%q3], %r2;
  add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, {WORDS}; @%p1 bra $fill;
  mov.u32 %r2, 0; mov.u32 %r4, 0;
$read:
  mul.wide.u32 %q2, %r2, 4; add.u64 %q3, %q1, %q2; ld.local.u32 %r3, [%q3]; add.u32 %r4, %r4, %r3;
  add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, {WORDS}; @%p2 bra $read;
  ld.param.u64 %q4, [out]; mul.wide.u32 %q5, %r1, 4; add.u64 %q6, %q4, %q5; st.global.u32 [%q6], %r4; ret;
}}
"""
"""Each thread fills 16 words of its own, and reads them."""

THREADS = 256
BLOCK_BYTES = 4 * WORDS * THREADS


@pytest.fixture(autouse=True)
def arrays_in_memory(monkeypatch):
    """Hide the assembler, which would have these small arrays in registers."""
    monkeypatch.setattr(local_arrays, "assemblies", lambda *_: [])


def make_trace(blocks: int):
    return cuda.trace(STACK, "stack", blocks, THREADS, [f"int[{THREADS}]:zeros"])


def local_addresses(columns: Columns):
    return columns.addresses[np.repeat(columns.space == Space.LOCAL, np.diff(columns.address_start))]


def test_a_block_moves_to_its_place_and_keeps_its_offsets():
    trace = make_trace(100)
    memory = trace.local_memory
    assert memory is not None
    assert memory.block_bytes == BLOCK_BYTES
    own, moved = trace.block(77), memory.at_place(trace.block(77), 5)
    assert isinstance(moved, Columns)
    np.testing.assert_array_equal(local_addresses(own) - local_addresses(moved), (77 - 5) * BLOCK_BYTES)
    others = np.repeat(own.space != Space.LOCAL, np.diff(own.address_start))
    np.testing.assert_array_equal(own.addresses[others], moved.addresses[others])
    assert len(set(local_addresses(moved).tolist())) == WORDS * THREADS


def test_blocks_without_local_memory_stay_as_they_are():
    memory = LocalMemory(1 << 45, 1024)
    block = make_trace(1).block(0)
    low = Columns(**{name: getattr(block, name) for name in block.__slots__} | {"addresses": block.addresses % 4096})
    assert memory.at_place(low, 3) is low
    program = tracegen.kernel("atax.1", NX=64, NY=64).block(0)
    assert not isinstance(program, Columns)
    assert memory.at_place(program, 3) is program


def test_views_of_a_trace_tell_where_its_local_memory_is():
    trace = make_trace(4)
    assert CachedTrace(trace).local_memory == trace.local_memory
    assert MaterialisedTrace(trace, [1, 2]).local_memory == trace.local_memory
    displaced = DisplacedTrace(trace, [256, 512, 1024])
    assert trace.local_memory is not None
    assert displaced.local_memory == (trace.local_memory.first + 256 + 512 + 1024, BLOCK_BYTES)
    assert local_addresses(displaced.block(0)).min() == displaced.local_memory.first
    assert tracegen.kernel("atax.1", NX=64, NY=64).local_memory is None


def test_all_local_memory_is_one_array_of_the_launch():
    array = make_trace(6).launch.arrays[-1]
    assert (array.name, array.bytes) == ("local memory", 6 * BLOCK_BYTES)
    rows = rd.predict(make_trace(6), A100, origins=True).by("array").rows
    (local,) = (row for row in rows if row.name == "local memory")
    assert local.counts.requests == WORDS * THREADS // 32  # those of the block of one SM


@pytest.mark.parametrize("sms", [1, 3])
def test_later_blocks_find_the_local_memory_of_earlier_ones_in_the_l1(sms):
    waves = [rd.predict(make_trace(8 * sms * many), A100, sms=sms, model_sms="all", threads=None) for many in (1, 6)]
    assert waves[0].transactions > 0
    for found in waves:
        assert found.misses.total == 0  # loads follow the stores of their thread


def test_local_memory_that_fits_into_the_l2_is_not_written_to_the_dram():
    found = rd.predict(make_trace(64), A100, sms=2, l2=True)
    assert found.l2.write_backs == 0
    assert found.l2.dirty * 32 == 2 * 8 * BLOCK_BYTES + 4 * THREADS  # 8 places of each SM, and the output


def test_the_simulated_machine_gives_blocks_the_same_places():
    few, many = (rd.simulate(make_trace(blocks), A100, sms=2) for blocks in (16, 64))
    assert few.misses.total == many.misses.total == 0
    sectors = (2 * 8 * BLOCK_BYTES + 4 * THREADS) // 32
    assert few.l2.writes - few.l2.write_hits == many.l2.writes - many.l2.write_hits == sectors
    assert many.dram.writes == 0
