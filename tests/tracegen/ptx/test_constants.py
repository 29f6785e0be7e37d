"""Test constant memory: loads are executed and recorded as a separate space that the L1 does not serve."""

from __future__ import annotations

import numpy as np

import rdmodel as rd
from rdmodel.trace import Op, Space
from tracegen.ptx import parse
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.emulator.emulated_trace import EmulatedTrace

LOOKUP = """
.version 8.0
.target sm_80
.address_size 64
.const .align 4 .u32 table[4] = {10, 20, 30, 40};
.visible .entry lookup(.param .u64 out) {
  .reg .b32 %r<4>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 3;
  mul.wide.u32 %rd2, %r2, 4;
  mov.u64 %rd3, table;
  add.s64 %rd4, %rd3, %rd2;
  ld.const.u32 %r3, [%rd4];
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd5, %rd1, %rd2;
  st.global.u32 [%rd5], %r3;
  ld.global.u32 %r3, [%rd5];
  ret;
}
"""


def test_constants_are_executed_and_recorded_as_their_own_kind():
    out = np.zeros(32, np.uint32)
    machine = LoadedModule(parse(LOOKUP))
    columns = machine.launch("lookup", 1, 32, [machine.allocate(out, "out")]).run(0)
    assert out.tolist() == [10, 20, 30, 40] * 8
    kinds = list(zip(columns.op.tolist(), columns.space.tolist(), strict=True))
    assert kinds == [(Op.LOAD, Space.CONSTANT), (Op.STORE, Space.GLOBAL), (Op.LOAD, Space.GLOBAL)]
    assert int(columns.needs[1]) == 1  # the store waits for the constant


def test_constants_make_no_l1_transaction():
    for values in (True, False):
        machine = LoadedModule(parse(LOOKUP))
        launched = machine.launch("lookup", 1, 32, [machine.allocate(128, "out")], values=values)
        for definition in ("hardware", "paper"):
            assert rd.predict(EmulatedTrace(launched), definition=definition).transactions == 1
