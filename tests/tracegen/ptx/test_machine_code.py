"""Test the machine instructions of PTX: classes, arithmetic per thread, matrix products, fused additions."""

from __future__ import annotations

import numpy as np
import pytest

from rdmodel.trace.counting import count_work
from tests.support.ptx_kernels import HEAD, module_of
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.emulator.emulated_trace import EmulatedTrace

REGISTERS = """
    .reg .b64 %rd<9>; .reg .b32 %r<17>; .reg .f32 %f<9>; .reg .f64 %d<5>; .reg .b16 %h<5>; .reg .pred %p<5>;
    ld.param.u64 %rd1, [x];
"""


def work(body: str, threads: int = 32, *, values: bool = True):
    """Return the work of a block of a kernel k(x) with this body."""
    machine = LoadedModule(module_of(f"{HEAD}\n.visible .entry k(.param .u64 x)\n{{{REGISTERS}{body}\n}}"))
    launched = machine.launch("k", 1, threads, [machine.allocate(np.zeros(1024, np.uint32), "x")], values=values)
    return count_work(EmulatedTrace(launched))


def only(counts):
    return {name: value for name, value in counts.items() if value}


INSTRUCTIONS = {
    "add.s32 %r1, %r2, %r3;": ({"int": 1}, {"int": 1}),
    "add.s64 %rd2, %rd3, %rd4;": ({"int": 2}, {"int": 2}),
    "mul.wide.s32 %rd2, %r1, 4;": ({"int": 1}, {"int": 1}),
    "mul.lo.s64 %rd2, %rd3, %rd4;": ({"int": 3}, {"int": 3}),
    "setp.lt.s32 %p1, %r1, %r2;": ({"int": 1}, {"int": 1}),
    "setp.lt.f32 %p1, %f1, %f2;": ({"int": 1}, {}),
    "setp.lt.f64 %p1, %d1, %d2;": ({"fp64": 1}, {}),
    "selp.f32 %f1, %f2, %f3, %p1;": ({"int": 1}, {}),
    "popc.b32 %r1, %r2;": ({"special": 1}, {"int": 1}),
    "add.f32 %f1, %f2, %f3;": ({"fp32": 1}, {"fp32_add": 1}),
    "sub.f64 %d1, %d2, %d3;": ({"fp64": 1}, {"fp64_add": 1}),
    "mul.f32 %f1, %f2, %f3;": ({"fp32": 1}, {"fp32_mul": 1}),
    "fma.rn.f32 %f1, %f2, %f3, %f4;": ({"fp32": 1}, {"fp32_fma": 1}),
    "max.f32 %f1, %f2, %f3;": ({"int": 1}, {}),
    "neg.f32 %f1, %f2;": ({}, {}),
    "fma.rn.f16 %h1, %h2, %h3, %h4;": ({"fp16": 1}, {"fp16_fma": 1}),
    "fma.rn.f16x2 %r1, %r2, %r3, %r4;": ({"fp16": 1}, {"fp16_fma": 2}),
    "ex2.approx.ftz.f32 %f1, %f2;": ({"special": 1}, {}),
    "sin.approx.f32 %f1, %f2;": ({"special": 1, "fp32": 1}, {}),
    "sqrt.approx.f32 %f1, %f2;": ({"special": 1, "fp32": 1}, {"fp32_other": 1}),
    # Conversions are those of ptxas 13.5: docs/time.md, "Conversions".
    "cvt.rn.f32.s32 %f1, %r1;": ({"int_to_fp32": 1}, {}),
    "cvt.rz.f32.u32 %f1, %r1;": ({"int_to_fp32": 1}, {}),
    "cvt.rn.f32.u16 %f1, %h1;": ({"int_to_fp32": 1}, {}),
    "cvt.rn.f32.u8 %f1, %h1;": ({"int_to_fp32": 1}, {}),
    "cvt.rp.f32.u32 %f1, %r1;": ({"conversion": 1}, {}),
    "cvt.rn.f32.s16 %f1, %h1;": ({"conversion": 1}, {}),
    "cvt.rn.f32.s8 %f1, %h1;": ({"conversion": 1}, {}),
    "cvt.rn.f32.s64 %f1, %rd2;": ({"conversion_64": 1}, {}),
    "cvt.rn.f16.s32 %h1, %r1;": ({"conversion": 1}, {}),
    "cvt.rn.f64.s32 %d1, %r1;": ({"conversion_64": 1}, {}),
    "cvt.rzi.s32.f32 %r1, %f1;": ({"conversion": 1}, {}),
    "cvt.f64.f32 %d1, %f1;": ({"conversion_64": 1}, {}),
    "cvt.rmi.f32.f32 %f1, %f2;": ({"conversion": 1}, {}),
    "cvt.ftz.f32.f32 %f1, %f2;": ({"fp32": 1}, {}),
    "cvt.rn.f16.f32 %h1, %f1;": ({"pack_fp16": 1}, {}),
    "cvt.rn.bf16.f32 %h1, %f1;": ({"pack_fp16": 1}, {}),
    "cvt.rn.f16x2.f32 %r1, %f1, %f2;": ({"pack_fp16": 1}, {}),
    "cvt.rn.bf16x2.f32 %r1, %f1, %f2;": ({"pack_fp16": 1}, {}),
    "cvt.rna.tf32.f32 %r1, %f1;": ({"int": 3}, {}),
    "cvt.f32.f16 %f1, %h1;": ({"fp16_to_fp32": 1}, {}),
    "cvt.f32.bf16 %f1, %h1;": ({"int": 1}, {}),
    "cvt.s32.s8 %r1, %h1;": ({"int": 1}, {"int": 1}),
    "cvt.sat.u8.u32 %r1, %r2;": ({"int": 1}, {"int": 1}),
    "cvt.sat.u8.s32 %r1, %r2;": ({"conversion": 1}, {}),
    "cvt.sat.s16.s32 %h1, %r2;": ({"conversion": 1}, {}),
    "cvt.s64.s32 %rd2, %r1;": ({"int": 1}, {"int": 1}),
    "cvt.u32.u64 %r1, %rd2;": ({}, {}),
    "mov.u32 %r1, %r2;": ({}, {}),
    "mov.u32 %r1, %tid.x;": ({"other": 1}, {}),
    "mov.b64 %rd2, {%r1, %r2};": ({}, {}),
    "shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;": ({"shuffle": 1}, {}),
    "bar.sync 0;": ({"barrier": 1}, {}),
    "cvta.to.global.u64 %rd2, %rd1;": ({}, {}),
}


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_an_instruction_has_its_classes_and_its_arithmetic(instruction):
    classes, operations = INSTRUCTIONS[instruction]
    found = work(f"{instruction} ret;")
    assert only(found.instructions) == {**classes, "branch": 1}
    assert only(found.operations) == {name: 32 * count for name, count in operations.items()}


def test_guards_switch_off_lanes_but_not_the_instruction():
    # Two warps; 5 lanes of the first and none of the second add; a negated predicate as an operand is prepared first.
    body = """mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 5; @%p1 add.f32 %f1, %f2, %f3;
    @!%p1 fma.rn.f32 %f1, %f2, %f3, %f4; selp.f32 %f4, %f1, %f2, !%p1; st.global.f32 [%rd1], %f4; ret;"""
    found = work(body, 64)
    assert found.instructions["fp32"] == 4
    assert only(found.operations) == {"fp32_add": 5, "fp32_fma": 59, "int": 64}
    # Without values nothing needs the guard: all active lanes count.
    assert work(body, 64, values=False).operations["fp32_add"] == 64


@pytest.mark.parametrize(
    ("product", "type", "flops"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, "
         "{%f1,%f2,%f3,%f4};", "fp16", 2 * 16 * 8 * 16),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1,%r2,%r3,%r4}, {%r5,%r6,%r7,%r8}, {%r9,%r10}, "
         "{%r1,%r2,%r3,%r4};", "int8", 2 * 16 * 8 * 32),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d1,%d2}, {%d3}, {%d4}, {%d1,%d2};", "fp64", 2 * 8 * 8 * 4),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, "
         "{%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8};",
         "fp16", 2 * 16 * 16 * 16),
        ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1,%r2}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%r1,%r2};",
         "fp16_fp16", 2 * 16 * 8 * 16),
        ("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16 {%r1,%r2}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%r1,%r2};",
         "fp8_fp16", 2 * 16 * 8 * 32),
    ],
)  # fmt: skip
def test_a_matrix_product_has_the_operations_of_its_shape(product, type, flops):
    found = work(f"{product} ret;", 64)
    assert only(found.matrix_flops) == {type: 2 * flops}
    assert only(found.instructions) == {"matrix": 2, "branch": 2}


@pytest.mark.parametrize(
    ("result", "summand", "type"),
    [("f16", "f16", "fp16_fp16"), ("f16", "f32", "fp16"), ("f32", "f16", "fp16"), ("f32", "f32", "fp16")],
)
def test_sums_are_in_half_precision_where_result_and_summand_are(result, summand, type):
    # ptxas 13.0 makes HMMA.16816.F16 of the first product, and HMMA.16816.F32 of the others, for 7.5, 8.6 and 12.0.
    fragments = {"f16": "{%r1,%r2,%r3,%r4}", "f32": "{%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}"}
    factor = "{%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}"
    product = (
        f"wmma.mma.sync.aligned.row.col.m16n16k16.{result}.{summand} "
        f"{fragments[result]}, {factor}, {factor}, {fragments[summand]};"
    )
    assert only(work(f"{product} ret;").matrix_flops) == {type: 2 * 16 * 16 * 16}


def test_products_of_a_group_tell_the_type_of_their_sums():
    for sums, type in (("f16", "fp16_fp16"), ("f32", "fp16")):
        registers = "{%r1,%r2}" if sums == "f16" else "{%f1,%f2,%f3,%f4}"
        found = work(
            f"mov.b64 %rd1, 0; wgmma.mma_async.sync.aligned.m64n8k16.{sums}.f16.f16 {registers}, %rd1, %rd1, "
            "1, 1, 1, 0, 0;",
            128,
            values=False,
        )
        assert only(found.matrix_flops) == {type: 2 * 64 * 8 * 16}
        assert found.matrix_bytes == (64 + 8) * 16 * 2


@pytest.mark.parametrize(("n", "first", "read"), [(128, "%rd1", (64 + 128) * 32), (8, "%rd1", (64 + 8) * 32),
                                                  (128, "{%r1, %r1, %r1, %r1}", 128 * 32)])  # fmt: skip
def test_products_of_a_group_read_factors_from_shared_memory_unless_they_are_in_registers(n, first, read):
    sums = ", ".join(f"%s{at}" for at in range(n // 2))
    found = work(
        f".reg .f32 %s<{n}>; mov.b64 %rd1, 0; mov.b32 %r1, 0; "
        f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{sums}}}, {first}, %rd1, 1, 1, 1, 0, 0;",
        128,
        values=False,
    )
    assert found.matrix_bytes == read
    assert found.matrix_flops["fp16"] == 2 * 64 * n * 16


def test_additions_absorb_wide_products_and_shifts():
    # The product is used by two additions: two machine instructions. The shift is used by one: one.
    both = """mul.wide.s32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; add.s64 %rd4, %rd1, %rd2;
    shl.b32 %r2, %r1, 3; add.s32 %r3, %r2, %r4; ret;"""
    assert work(both).instructions["int"] == 3
    # A product that something else uses is computed; an addition absorbs one operand only.
    used = "mul.wide.s32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; xor.b64 %rd4, %rd2, %rd3; ret;"
    assert work(used).instructions["int"] == 1 + 2 + 2
    twice = "shl.b32 %r2, %r1, 3; shl.b32 %r3, %r1, 5; add.s32 %r4, %r2, %r3; ret;"
    assert work(twice).instructions["int"] == 2


def test_loads_of_matrices_count_a_wavefront_for_each_matrix():
    # Lane l addresses row l: 16 bytes of each, 4 matrices of 8 rows; rows of 128 bytes lie in the same four banks.
    body = """mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, {shift};
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r3,%r4,%r5,%r6}}, [%r2]; ret;"""
    shared = "{.shared .b8 room[4096]; "
    for shift, wavefronts in ((4, 4), (7, 32)):
        text = f"{HEAD}\n.visible .entry k(.param .u64 x)\n{shared}{REGISTERS}{body.format(shift=shift)}\n}}"
        machine = LoadedModule(module_of(text.replace("[%r2]", "[%r2]").replace("%r2, %r1", "%r2, %r1")))
        launched = machine.launch("k", 1, 32, [machine.allocate(np.zeros(4, np.uint32), "x")], shared=4096)
        found = count_work(EmulatedTrace(launched))
        assert found.instructions["load_shared"] == 1
        assert found.shared_wavefronts["load_shared"] == wavefronts
        assert found.shared_groups["load_shared"] == 4


def test_asynchronous_copies_load_global_memory_and_fill_shared_memory():
    body = """mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 4; cvt.u64.u32 %rd2, %r2; add.s64 %rd3, %rd1, %rd2;
    cp.async.cg.shared.global [%r2], [%rd3], 16; cp.async.commit_group; cp.async.wait_group 0; ret;"""
    machine = LoadedModule(module_of(f"{HEAD}\n.visible .entry k(.param .u64 x)\n{{{REGISTERS}{body}\n}}"))
    launched = machine.launch("k", 1, 32, [machine.allocate(np.zeros(128, np.uint32), "x")], shared=512)
    found = count_work(EmulatedTrace(launched))
    memory = {name: n for name, n in only(found.instructions).items() if "_" in name}
    assert memory == {"load_global": 1}
    assert only(found.shared_wavefronts) == {"store_shared": 4}
