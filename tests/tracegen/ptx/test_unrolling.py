"""Inner loops that the assembler unrolls completely: which these are, what is left of them, and their values."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import presets
from rdmodel.gpu.register_use import with_registers
from tests.support.examples import examples
from tests.support.ptx_kernels import module_of, run_kernel
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.emulator.emulated_trace import EmulatedTrace
from tracegen.ptx.lowering import lowering
from tracegen.ptx.lowering.inner_loops import find_inner_loops
from tracegen.ptx.lowering.unrolling import Unrolled, unroll_inner_loops

KERNEL = """
.version 8.0 .target sm_{target} .address_size 64
.visible .entry k(.param .u64 out, .param .u32 n)
{{
    .reg .b64 %q<6>;
    .reg .b32 %r<40>, %f<20>;
    .reg .pred %p<4>;
    .shared .align 4 .b8 s[16384];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, s;
    mov.b32 %f1, 0;
    shl.b32 %r4, %r2, 4;
    add.s32 %r5, %r3, %r4;
    mov.u32 %r6, 0;
$fill:
    mad.lo.s32 %r7, %r6, 128, %r4;
    add.s32 %r8, %r7, %r3;
    cvt.rn.f32.u32 %f9, %r7;
    st.shared.f32 [%r8], %f9;
    st.shared.f32 [%r8+4], %f9;
    add.s32 %r6, %r6, 1;
    setp.lt.u32 %p3, %r6, %r1;
    @%p3 bra $fill;
    bar.sync 0;
    mov.u32 %r9, 0;
    mov.u32 %r20, %r5;
    mov.u32 %r21, 7;
$outer:
    {before}
    mov.u32 %r10, {start};
$inner:
    {body}
    add.s32 %r10, %r10, {step};
    setp.{compare}.s32 %p1, %r10, {limit};
    {guard} bra $inner;
    {behind}
    add.s32 %r9, %r9, 1;
    setp.lt.s32 %p2, %r9, 3;
    @%p2 bra $outer;
    ld.param.u64 %q1, [out];
    mul.wide.u32 %q2, %r2, 4;
    add.u64 %q1, %q1, %q2;
    cvt.rn.f32.s32 %f9, %r21;
    add.f32 %f1, %f1, %f9;
    st.global.f32 [%q1], %f1;
    ret;
}}
"""

SHAPE = {"target": 80, "before": "", "behind": "", "start": 0, "step": 1, "compare": "lt", "limit": 4, "guard": "@%p1"}
LOADS = "ld.shared.f32 %f2, [%r12]; ld.shared.f32 %f3, [%r12+4]; fma.rn.f32 %f1, %f2, %f3, %f1;"
ROWS = "shl.b32 %r11, %r10, 7; add.s32 %r12, %r5, %r11;" + LOADS


def text(body: str = ROWS, **shape: object) -> str:
    return KERNEL.format(body=body, **{**SHAPE, **shape})


def loops(source: str) -> list[int]:
    """Return the iterations of the loops that are unrolled."""
    module = module_of(source)
    return [loop.iterations for loop in find_inner_loops(module.functions["k"], module.architecture)]


def code(source: str) -> list[str]:
    """Return the names of the instructions between the labels of the inner loop and its end, once it is unrolled."""
    module = module_of(source)
    made = unroll_inner_loops(module.functions["k"], module.architecture).function
    (end,) = (at for at, each in enumerate(made.body) if each.opcode == "setp" and each.operands[0].name == "%p2")
    return [".".join((each.opcode, *each.modifiers)) for each in made.body[made.labels["$inner"] : end - 1]]


@pytest.mark.parametrize(
    ("shape", "iterations"),
    [
        ({}, 4),
        ({"limit": 32}, 32),
        ({"start": 8, "step": 4, "limit": 40}, 8),
        ({"start": 10, "step": -2, "compare": "gt", "limit": 0}, 5),
        ({"compare": "ne", "limit": 6}, 6),
        ({"compare": "eq", "limit": 6, "guard": "@!%p1"}, 6),
        ({"compare": "ge", "limit": 6, "guard": "@!%p1"}, 6),
        ({"limit": 0}, 1),
        ({"start": 4, "step": -1, "compare": "gt", "limit": -2}, 6),
        ({"compare": "lo", "start": -4, "limit": 0xFFFFFFFF}, 3),
    ],
)
def test_a_loop_is_unrolled_if_its_number_of_iterations_is_known(shape, iterations):
    assert loops(text(**shape)) == [iterations]


@pytest.mark.parametrize(
    "shape",
    [
        {"limit": "%r1"},
        {"start": "%r1"},
        {"limit": 600},
        {"compare": "ne", "limit": -1},
        {"body": '.pragma "nounroll";' + ROWS},
        {"body": ROWS + "setp.gt.f32 %p3, %f1, 0f42c80000; @%p3 bra $out;", "behind": "$out:"},
        {"body": ROWS + "bar.sync 0;"},
        {"body": ROWS + "ld.global.f32 %f4, [%q1];"},
        {"body": "ld.volatile.shared.f32 %f4, [%r5];" + ROWS},
        {"body": ROWS + "@%p3 add.f32 %f1, %f1, %f1;"},
        {"body": ROWS + "mov.u32 %r30, %clock;"},
        {"body": ROWS + "$middle:"},
        {"body": "ld.shared.f32 %f2, [%r5]; add.f32 %f1, %f1, %f2;"},
        {"body": ROWS + "selp.b32 %r30, 1, 2, %p1;"},
        {"body": ROWS + "add.s32 %r10, %r10, 1;"},
        {"before": "@%p3 bra $inner;"},
        {"start": "0; @%p3 mov.u32 %r10, 2"},
        {"start": "0; bra $inner; $other: mov.u32 %r10, 2"},
        {"limit": "4; add.s32 %r10, %r10, 1", "step": 0},
    ],
    ids=str,
)
def test_other_loops_stay_as_they_are(shape):
    source = text(**shape)
    assert loops(source) == []
    module = module_of(source)
    assert unroll_inner_loops(module.functions["k"], 80).function is module.functions["k"]


def test_since_9_0_only_short_bodies_are_unrolled():
    assert [loops(text(target=target, limit=400)) for target in (75, 89, 90, 120)] == [[400], [400], [], []]
    assert loops(text(target="90a", limit=20)) == [20]


def test_a_loop_in_no_other_one_stays():
    outer = "@%p2 bra $outer;"
    assert loops(text().replace(outer, "")) == []


def test_rows_become_offsets_and_their_loads_are_all_that_is_left():
    left = code(text(limit=3))
    assert left == ["ld.shared.f32", "ld.shared.f32", "fma.rn.f32"] * 3


def test_what_is_the_same_in_all_iterations_is_computed_once():
    body = "shl.b32 %r13, %r2, 2; and.b32 %r14, %r13, 124; mad.lo.s32 %r15, %r10, 128, %r14; shl.b32 %r15, %r15, 0;"
    left = code(text(body + "add.s32 %r12, %r3, %r15;" + LOADS, limit=3))
    assert left == ["shl.b32", "and.b32", "add.s32", *["ld.shared.f32", "ld.shared.f32", "fma.rn.f32"] * 3]


def test_what_depends_on_the_counter_in_another_way_is_computed_in_each_iteration():
    body = "or.b32 %r13, %r2, %r10; shl.b32 %r14, %r13, 4; add.s32 %r12, %r3, %r14;" + LOADS
    left = code(text(body, limit=3))
    assert [left.count(name) for name in ("mov.u32", "or.b32", "shl.b32", "add.s32")] == [3, 3, 3, 3]


def test_a_pointer_that_moves_is_left_where_the_loop_ends():
    left = code(text("add.s32 %r20, %r20, 128; mov.u32 %r12, %r20;" + LOADS, limit=3))
    assert left == [*["ld.shared.f32", "ld.shared.f32", "fma.rn.f32"] * 3, "add.s32"]


def test_words_of_several_iterations_are_merged():
    body = "shl.b32 %r11, %r10, 2; add.s32 %r12, %r3, %r11; ld.shared.f32 %f2, [%r12]; ld.shared.f32 %f3, [%r12+4096];"
    source = text(body + "fma.rn.f32 %f1, %f2, %f3, %f1;", limit=8)
    machine = LoadedModule(module_of(source))
    launched = machine.launch("k", 1, 32, [machine.allocate(np.zeros(32, np.float32), "out"), 5])
    launched.run(0)
    # Two units of four words each, in three iterations of the outer loop.
    assert launched.last_work().instructions["load_shared"] == 3 * 4


def test_numbers_of_instructions_stay_those_of_the_text():
    kernel = lowering.lower_kernel(module_of(text(limit=4)), "k", {}, 0)
    rolled = lowering.lower_kernel(module_of(text(limit="%r1")), "k", {}, 0)
    behind = [step.pc for step in kernel.steps if step.op == "STORE" and step.space == "GLOBAL"]
    assert behind == [step.pc for step in rolled.steps if step.op == "STORE" and step.space == "GLOBAL"]
    numbers = [step.pc for step in kernel.steps if step.op == "LOAD" and step.space == "SHARED"]
    assert len(set(numbers)) == len(numbers) == 4


def test_a_launch_has_the_loops_of_the_gpu_that_its_code_is_made_for():
    machine = LoadedModule(module_of(text(ROWS.replace("%r10, 7", "%r10, 3"), limit=400)))
    trace = EmulatedTrace(machine.launch("k", 1, 32, [machine.allocate(np.zeros(32, np.float32), "out"), 5]))
    hopper = trace.assembled_for((9, 0))
    assert trace.assembled_for((8, 6)) is trace
    assert hopper.assembled_for((12, 0)) is hopper
    # Four words of two iterations are one load, and the loop over 400 rows has its counter only where it is left.
    loads, branches = ([each.block_work(0).instructions[name] for each in (trace, hopper)]
                       for name in ("load_shared", "branch"))  # fmt: skip
    assert loads == [3 * 200, 3 * 400]
    assert branches[1] - branches[0] == 3 * 400
    columns = [each.block(0) for each in (trace, hopper)]
    np.testing.assert_array_equal(columns[0].pc, columns[1].pc)
    assert with_registers(trace, presets.gpu("h100-sxm"), 40)[0].block_work(0) == hopper.block_work(0)


# ---- values

SOURCES = st.sampled_from(["%r2", "%r5", "%r10", "%r13", "%r14", "%r15", "%r20", "%r21", "5", "64"])
TARGETS = st.sampled_from(["%r13", "%r14", "%r15", "%r20", "%r21"])
OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["add.s32", "sub.s32", "mul.lo.s32", "or.b32", "xor.b32", "and.b32"]),
              TARGETS, SOURCES, SOURCES),
    st.tuples(st.just("mad.lo.s32"), TARGETS, SOURCES, SOURCES, SOURCES),
    st.tuples(st.just("shl.b32"), TARGETS, SOURCES, st.sampled_from(["2", "7", "31", "%r10"])),
    st.tuples(st.just("mov.u32"), TARGETS, SOURCES),
    st.tuples(st.just("selp.b32"), TARGETS, SOURCES, SOURCES, st.just("%p3")),
    st.tuples(st.just("load"), TARGETS, SOURCES),
    st.tuples(st.just("store"), SOURCES, SOURCES),
    st.tuples(st.just("sum"), SOURCES),
)  # fmt: skip


def operation(name: str, *operands: str) -> str:
    place = "and.b32 %r30, {}, 508; add.s32 %r31, %r3, %r30;"
    if name == "load":
        return place.format(operands[1]) + f"ld.shared.u32 {operands[0]}, [%r31+16];"
    if name == "store":
        return place.format(operands[1]) + f"mov.u32 %r32, {operands[0]}; st.shared.u32 [%r31+16], %r32;"
    if name == "sum":
        small = f"mov.u32 %r32, {operands[0]}; and.b32 %r33, %r32, 4095;"
        return small + "cvt.rn.f32.u32 %f4, %r33; add.f32 %f1, %f1, %f4;"
    return f"{name} {', '.join(operands)};"


@examples(200)
@given(
    st.lists(OPERATIONS, min_size=1, max_size=9),
    st.lists(OPERATIONS, max_size=2),
    st.integers(1, 6),
    st.sampled_from([1, 4, -3]),
)
def test_values_do_not_depend_on_the_unrolling(inside, behind, iterations, step):
    source = text(
        "".join(operation(*each) for each in inside) + ROWS,
        behind="".join(operation(*each) for each in behind),
        step=step,
        start=0 if step > 0 else -step * iterations,
        limit=step * iterations if step > 0 else 0,
        compare="lt" if step > 0 else "gt",
    )
    results = []
    for unroll in (unroll_inner_loops, lambda function, _: Unrolled(function, range(len(function.body)))):
        out = np.zeros(1, np.float32)
        with patch.object(lowering, "unroll_inner_loops", unroll):
            run_kernel(source, "k", 1, 1, [out, 20])
        results.append(out)
    assert loops(source) == [iterations]
    np.testing.assert_array_equal(*results)
