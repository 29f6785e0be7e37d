"""Test that translation units in one PTX text are linked as nvlink does it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.ptx_kernels import HEAD, module_of, run_kernel
from tracegen.ptx import PtxError

FIRST = f"""{HEAD}
.file 1 "first.cu"
.extern .func (.param .b32 result) f(.param .b32 a);
.extern .global .align 4 .u32 scale;
.visible .global .align 4 .b32 table[4] = {{1, 2, 3, 4}};
.func (.param .b32 result) helper(.param .b32 a) {{
  .reg .b32 %r<4>; .loc 1 9 0 ld.param.u32 %r1, [a]; add.u32 %r2, %r1, 1; st.param.b32 [result+0], %r2; ret;
}}
.visible .entry k(.param .u64 x) {{
  .reg .b64 %rd<9>; .reg .b32 %r<9>;
  ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  {{ .param .b32 p0; st.param.b32 [p0+0], %r1; .param .b32 o0; call (o0), helper, (p0); ld.param.b32 %r2, [o0+0]; }}
  {{ .param .b32 p0; st.param.b32 [p0+0], %r2; .param .b32 o0; call (o0), f, (p0); ld.param.b32 %r3, [o0+0]; }}
  .loc 1 20 0
  ld.global.u32 %r4, [scale]; mul.lo.u32 %r5, %r3, %r4; st.global.u32 [%rd3], %r5; ret;
}}
"""
SECOND = f"""{HEAD}
.file 1 "second.cu"
.visible .global .align 4 .u32 scale = 7;
.extern .global .align 4 .b32 table[4];
.global .align 8 .u64 way = helper;
.func (.param .b32 result) helper(.param .b32 a) {{
  .reg .b32 %r<4>; .loc 1 5 0 ld.param.u32 %r1, [a]; mul.lo.u32 %r2, %r1, 10; st.param.b32 [result+0], %r2; ret;
}}
.visible .func (.param .b32 result) f(.param .b32 a) {{
  .reg .b32 %r<6>; .reg .b64 %rd<3>;
  ld.param.u32 %r1, [a];
  {{ .param .b32 p0; st.param.b32 [p0+0], %r1; .param .b32 o0; call (o0), helper, (p0); ld.param.b32 %r2, [o0+0]; }}
  mov.u64 %rd1, table; ld.global.u32 %r3, [%rd1+8]; add.u32 %r4, %r2, %r3;
  st.param.b32 [result+0], %r4; ret;
}}
"""
EXPECTED = [7 * (10 * (t + 1) + 3) for t in range(32)]


@pytest.mark.parametrize("text", [FIRST + SECOND, SECOND + FIRST], ids=["calls forward", "calls back"])
def test_units_call_the_functions_and_read_the_variables_of_each_other(text):
    x = np.zeros(32, np.uint32)
    run_kernel(text, "k", 1, 32, [x])
    assert x.tolist() == EXPECTED


def test_units_that_are_linked_are_relocatable():
    assert module_of(FIRST + SECOND).relocatable
    assert not module_of(FIRST).relocatable


def test_functions_of_one_unit_alone_keep_apart():
    module = module_of(FIRST + SECOND)
    assert set(module.functions) == {"helper", "f", "k", "helper@2"}
    assert set(module.variables) == {"scale", "table", "way"}
    assert module.variables["way"].addresses == {0: "helper@2"}
    assert not any(variable.extern for variable in module.variables.values())
    assert module.kernels == ["k"]


def test_lines_and_source_files_are_those_of_the_units():
    text = FIRST + SECOND
    module = module_of(text)
    assert module.files == {1: "first.cu", 3: "second.cu"}
    (first, second) = (module.functions[name].body[0] for name in ("helper", "helper@2"))
    assert (first.source, second.source) == ((1, 9), (3, 5))
    assert text.splitlines()[second.line - 1].lstrip().startswith(".reg .b32 %r<4>; .loc 1 5 0 ld.param.u32")


def test_a_symbol_of_one_unit_gives_way_to_one_that_all_units_see():
    local = f"{HEAD}.global .align 4 .u32 scale = 1;\n.visible .entry other(.param .u64 x) {{ ret; }}\n"
    module = module_of(local + FIRST + SECOND)
    assert module.variables["scale@1"].initial == (1).to_bytes(4, "little")
    assert module.variables["scale"].initial == (7).to_bytes(4, "little")


def test_own_names_of_a_function_are_not_those_of_its_unit():
    unit = f"""{HEAD}
.visible .entry k(.param .u64 x) {{
  .reg .b64 %rd<9>; .reg .b32 %r<9>; .local .align 4 .u32 depot;
  ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  st.local.u32 [depot], %r1; ld.local.u32 %r2, [depot]; st.global.u32 [%rd3], %r2; ret;
}}
.global .align 4 .u32 depot = 9;
"""
    x = np.zeros(32, np.uint32)
    run_kernel(f"{HEAD}.visible .global .align 4 .u32 depot = 8;{unit}", "k", 1, 32, [x])
    assert x.tolist() == list(range(32))


def test_weak_definitions_give_way_and_two_strong_ones_are_refused():
    weak = HEAD + ".weak .global .align 4 .u32 scale = 1;\n"
    for text in (weak + SECOND, SECOND + weak):
        assert module_of(text).variables["scale"].initial == (7).to_bytes(4, "little")
    assert module_of(weak + weak.replace("= 1", "= 2")).variables["scale"].initial == (1).to_bytes(4, "little")
    with pytest.raises(PtxError, match=r"<test>:\d+: expected one definition of 'f' in all units, found another"):
        module_of(SECOND + SECOND.replace("scale", "other").replace(" way", " road"))


def test_a_declaration_that_no_unit_defines_remains_one():
    module = module_of(FIRST + FIRST.replace("table", "list").replace(" k(", " other("))
    assert module.functions["f"].body is None
    assert module.variables["scale"].extern
