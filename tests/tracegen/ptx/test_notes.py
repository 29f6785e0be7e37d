"""Notes about kernels: decisions that depend on constants nobody filled."""

from __future__ import annotations

import numpy as np
import pytest

from rdmodel.trace import Space
from tests.support.ptx_kernels import module_of, run_kernel
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.emulator.emulated_trace import EmulatedTrace

MODULE = """
.const .align 4 .b8 table[64];
.const .align 4 .u32 limit;
.const .align 4 .b8 known[16] = {4, 0, 0, 0, 8, 0, 0, 0};
.global .align 4 .u32 counter;
.func (.reg .b32 %o) look(.reg .b32 %i) {
  .reg .b64 %a<3>; mov.u64 %a1, table; mad.wide.u32 %a1, %i, 4, %a1; ld.const.u32 %o, [%a1]; ret; }
.entry k(.param .u64 x) {
  .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<3>; .reg .pred %p<3>; .shared .align 4 .b8 tile[256];
  ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2;
"""


def trace_of(body):
    machine = LoadedModule(module_of(MODULE + body + " ret; }"))
    return EmulatedTrace(machine.launch("k", 1, 32, [machine.allocate(4096, "x")], values=False)), machine


def symbols(body):
    notes = trace_of(body)[0].notes
    return [note.partition("not filled: ")[2].partition(" (")[0] for note in notes if "zeros" in note]


# ---- constants that were not filled


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("ld.const.u32 %r2, [limit]; setp.lt.u32 %p1, %r1, %r2; @%p1 bra L; st.global.u32 [%rd2], 1; L:", ["limit"]),
        ("ld.const.u32 %r2, [limit]; setp.lt.u32 %p1, %r1, %r2; @%p1 st.global.u32 [%rd2], 1;", ["limit"]),
        ("ld.const.u32 %r2, [table+8]; cvt.u64.u32 %rd3, %r2; add.s64 %rd3, %rd2, %rd3; ld.global.u32 %r3, [%rd3];",
         ["table"]),
        ("mov.u64 %rd3, table; add.s64 %rd3, %rd3, 4; ld.const.u32 %r2, [%rd3]; setp.ne.u32 %p1, %r2, 0; @%p1 ret;",
         ["table"]),
        ("mov.u64 %rd3, table; cvta.const.u64 %rd3, %rd3; ld.u32 %r2, [%rd3]; setp.ne.u32 %p1, %r2, 0; @%p1 ret;",
         ["table"]),
        ("call (%r2), look, (%r1); setp.ne.u32 %p1, %r2, 0; @%p1 ret;", ["table"]),
        ("ld.const.u32 %r2, [limit]; st.shared.u32 [tile], %r2; bar.sync 0; ld.shared.u32 %r3, [tile];"
         " setp.ne.u32 %p1, %r3, 0; @%p1 ret;", ["limit"]),
        ("ld.const.u32 %r2, [limit]; ld.const.u32 %r3, [table]; add.u32 %r2, %r2, %r3; setp.ne.u32 %p1, %r2, 0;"
         " @%p1 ret;", ["limit, table"]),
        ("ld.const.u32 %r2, [known]; setp.ne.u32 %p1, %r2, 0; @%p1 ret;", []),
        ("ld.global.u32 %r2, [counter]; setp.ne.u32 %p1, %r2, 0; @%p1 ret;", []),
        ("ld.const.u32 %r2, [limit]; st.global.u32 [%rd2], %r2;", []),
        ("ld.const.f32 %f1, [table]; add.f32 %f1, %f1, %f1; st.global.f32 [%rd2], %f1;", []),
    ],
)  # fmt: skip
def test_constants_that_decide_about_addresses_or_branches_are_named_unless_filled(body, named):
    assert symbols(body) == named


def test_a_filled_variable_is_not_named_and_has_its_content():
    body = "ld.const.u32 %r2, [limit]; setp.lt.u32 %p1, %r1, %r2; @%p1 st.global.u32 [%rd2], 1;"
    trace, machine = trace_of(body)
    assert (trace.block(0).space == Space.CONSTANT).all()
    machine.fill("limit", (5).to_bytes(4, "little"))
    launched = machine.launch("k", 1, 32, [machine.allocate(4096, "x")], values=False)
    assert launched.notes == ()
    assert launched.run(0).mask[-1] == 0b11111


def test_initial_values_of_constants_are_read():
    out = np.zeros(32, np.uint32)
    body = "and.b32 %r2, %r1, 3; mul.wide.u32 %rd3, %r2, 4; mov.u64 %rd4, known; add.s64 %rd3, %rd3, %rd4;"
    run_kernel(MODULE + body + " ld.const.u32 %r3, [%rd3]; st.global.u32 [%rd2], %r3; ret; }", "k", 1, 32, [out])
    assert out.tolist() == [4, 8, 0, 0] * 8
