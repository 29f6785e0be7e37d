"""Accesses to shared memory that the assembler merges: which ones, and that values stay what they were.

The cases are those in which `ptxas` 13.5 makes LDS.64, LDS.128, STS.64 or STS.128 of words for sm_75, sm_86 and sm_90.
"""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.ptx_kernels import module_of, run_kernel
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.lowering import lowering
from tracegen.ptx.lowering.vectors import merge_accesses

KERNEL = """
.visible .entry k(.param .u64 out, .param .u32 n)
{{
    .reg .b64 %q<6>;
    .reg .b32 %r<40>;
    .reg .b16 %h<20>;
    .reg .f32 %f<20>;
    .reg .pred %p<4>;
    .shared .align 4 .b8 s[4096];
    .shared .align 4 .b8 z[20];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, s;
    mov.u32 %r4, z;
    setp.lt.u32 %p1, %r2, %r1;
    {body}
    ld.param.u64 %q1, [out];
    mul.wide.u32 %q2, %r2, 4;
    add.u64 %q1, %q1, %q2;
    st.global.f32 [%q1], %f1;
    ret;
}}
"""

FOURFOLD = "shl.b32 %r5, %r2, 4; add.s32 %r6, %r3, %r5;"


def loads(*offsets: int, base: str = "%r6", type: str = "f32") -> str:
    return "".join(f"ld.shared.{type} %f{at + 1}, [{base}+{offset}];" for at, offset in enumerate(offsets))


def stores(*offsets: int, base: str = "%r6") -> str:
    return "".join(f"st.shared.f32 [{base}+{offset}], %f{at + 1};" for at, offset in enumerate(offsets))


def merged(body: str) -> list[str]:
    """Return the accesses to shared memory of a kernel with this body, as the assembler leaves them."""
    function = module_of(KERNEL.format(body=body)).functions["k"]
    changes = merge_accesses(function, {"s": 16, "z": 16})
    final = [changes.get(at, instruction) for at, instruction in enumerate(function.body)]
    shared = [one for one in final if one is not None and "shared" in one.modifiers]
    return [".".join((one.opcode, *one.modifiers[1:])) for one in shared]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (FOURFOLD + loads(0, 4, 8, 12), ["ld.v4.f32"]),
        (FOURFOLD + loads(12, 8, 4, 0), ["ld.v4.f32"]),
        (FOURFOLD + loads(0, 4, 8), ["ld.v4.f32"]),
        (FOURFOLD + loads(4, 8, 12, 16), ["ld.v4.f32", "ld.f32"]),
        (FOURFOLD + loads(0, 4), ["ld.v2.f32"]),
        (FOURFOLD + loads(8, 12), ["ld.v2.f32"]),
        (FOURFOLD + loads(4, 8), ["ld.f32", "ld.f32"]),
        (FOURFOLD + loads(0, 12), ["ld.f32", "ld.f32"]),
        (FOURFOLD + loads(0, 4, 8, 12, 16, 20, 24, 28), ["ld.v4.f32", "ld.v4.f32"]),
        (FOURFOLD + "ld.shared.v2.f32 {%f1, %f2}, [%r6];" + loads(8).replace("%f1", "%f3"), ["ld.v4.f32"]),
        (FOURFOLD + "ld.shared.f32 %f1, [%r6]; ld.shared.u32 %r9, [%r6+4];", ["ld.v2.b32"]),
        ("shl.b32 %r5, %r2, 3; add.s32 %r6, %r3, %r5;" + loads(0, 4, 8, 12), ["ld.v2.f32", "ld.v2.f32"]),
        ("mad.lo.s32 %r6, %r2, 20, %r3;" + loads(0, 4, 8, 12), ["ld.f32"] * 4),
        ("mov.b32 %f9, 1092616192; cvt.rzi.s32.f32 %r5, %f9; add.s32 %r6, %r3, %r5;" + loads(0, 4), ["ld.f32"] * 2),
        ("and.b32 %r5, %r1, 4080; add.s32 %r6, %r3, %r5;" + loads(0, 4, 8, 12), ["ld.v4.f32"]),
        ("mul.lo.s32 %r5, %r2, %r1; shl.b32 %r5, %r5, 4; add.s32 %r6, %r3, %r5;" + loads(0, 4), ["ld.f32"] * 2),
        ("mul.lo.s32 %r7, %r2, %r1; shl.b32 %r5, %r7, 4; add.s32 %r6, %r3, %r5;" + loads(0, 4), ["ld.v2.f32"]),
        (loads(0, 4, 8, 12, base="s"), ["ld.v4.f32"]),
        (FOURFOLD + stores(0, 4, 8, 12), ["st.v4.f32"]),
        (FOURFOLD + stores(0, 4, 8), ["st.v2.f32", "st.f32"]),
        (FOURFOLD + "st.shared.u32 [%r6], 0; st.shared.f32 [%r6+4], %f1;", ["st.v2.b32"]),
        (FOURFOLD + "@%p1 ld.shared.f32 %f1, [%r6]; @%p1 ld.shared.f32 %f2, [%r6+4];", ["ld.f32"] * 2),
        ("shl.b32 %r5, %r2, 4; selp.b32 %r5, %r5, 48, %p1; add.s32 %r6, %r3, %r5;" + loads(0, 4), ["ld.v2.f32"]),
    ],
)
def test_words_of_an_aligned_unit_are_merged(body, found):
    assert merged(body) == found


def short_loads(*offsets: int, type: str = "u16", register: str = "h") -> str:
    return "".join(f"ld.shared.{type} %{register}{at + 9}, [%r6+{offset}];" for at, offset in enumerate(offsets))


def short_stores(*offsets: int) -> str:
    return "".join(f"st.shared.u16 [%r6+{offset}], %h{at + 1};" for at, offset in enumerate(offsets))


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (short_loads(0, 2, 4, 6), ["ld.v4.u16"]),
        (short_loads(2, 4, 6), ["ld.v4.u16"]),
        (short_loads(4, 6), ["ld.v2.u16"]),
        (short_loads(2, 4), ["ld.u16", "ld.u16"]),
        (short_loads(0, 2, 4, 6, 8, 10), ["ld.v4.u16", "ld.v2.u16"]),
        (short_loads(0, 2, 4, 6, 8, 10, 12, 14), ["ld.v4.u16", "ld.v4.u16"]),
        (short_loads(0, 2, 4, 6, type="s16"), ["ld.v4.s16"]),
        (short_loads(0, type="s16") + "ld.shared.u16 %h10, [%r6+2];", ["ld.s16", "ld.u16"]),
        (short_loads(0, 2, 4, 6, register="r"), ["ld.u16"] * 4),
        (short_loads(0, 1, 2, 3, type="u8"), ["ld.u8"] * 4),
        (short_stores(0, 2, 4), ["st.v2.u16", "st.u16"]),
        (short_stores(0, 2, 4, 6, 8), ["st.v4.u16", "st.u16"]),
    ],
)
def test_short_words_are_merged_up_to_eight_bytes(body, found):
    assert merged(FOURFOLD + body) == found


@pytest.mark.parametrize(
    "between",
    [
        "bar.sync 0;",
        "st.shared.f32 [%r4], %f9;",
        "st.shared.f32 [%r6+4], %f9;",
        "ld.volatile.shared.f32 %f9, [%r4];",
        "atom.shared.add.u32 %r20, [%r4], 1;",
        "st.f32 [%q1], %f9;",
        "cp.async.ca.shared.global [%r4], [%q1], 4;",
        "add.s32 %r6, %r6, 16;",
        "$here:",
        "add.f32 %f2, %f1, %f1; st.global.f32 [%q1], %f2;",
    ],
)
def test_nothing_moves_across_what_may_change_its_value(between):
    assert merged(FOURFOLD + loads(0) + between + "ld.shared.f32 %f2, [%r6+4];")[0] == "ld.f32"


OTHER_LOADS = (
    "ld.shared.v4.f32 {%f11, %f12, %f13, %f14}, [%r6+32];",
    "@%p1 ld.shared.f32 %f9, [%r6+32];",
    "ld.shared.u8 %r20, [%r6+32];",
    "ld.f32 %f9, [%q1];",
)
"""Loads that are not merged themselves."""


@pytest.mark.parametrize(
    "between", ["add.f32 %f9, %f1, %f1;", "st.global.f32 [%q1], %f9;", loads(40, base="%r4"), *OTHER_LOADS]
)
def test_loads_move_across_what_does_not_concern_them(between):
    body = FOURFOLD + loads(0) + between.replace("%f1,", "%f8,") + "ld.shared.f32 %f2, [%r6+4];"
    assert merged(body)[0] == "ld.v2.f32"


def test_loads_that_are_not_merged_separate_stores():
    body = FOURFOLD + stores(0) + OTHER_LOADS[0] + "st.shared.f32 [%r6+4], %f2;"
    assert merged(body) == ["st.f32", "ld.v4.f32", "st.f32"]


@pytest.mark.parametrize("between", ["ld.shared.f32 %f9, [%r4];", "mov.f32 %f1, 0f00000000;", "bar.sync 0;"])
def test_stores_do_not_move_across_loads_and_changes_of_what_they_store(between):
    assert "st.v2.f32" not in merged(FOURFOLD + stores(0) + between + "st.shared.f32 [%r6+4], %f2;")


def test_a_load_that_changes_its_own_address_stays():
    body = FOURFOLD + "ld.shared.u32 %r6, [%r6]; ld.shared.u32 %r7, [%r6+4];"
    assert merged(body) == ["ld.u32", "ld.u32"]


def test_a_pointer_that_moves_by_whole_units_in_a_loop_stays_aligned():
    next_unit = "add.s32 %r6, %r6, {step}; setp.lt.u32 %p2, %r6, %r1; @%p2 bra $next;"
    loop = FOURFOLD + "$next: " + loads(0, 4, 8, 12) + next_unit
    assert merged(loop.format(step=512)) == ["ld.v4.f32"]
    assert merged(loop.format(step=8)) == ["ld.v2.f32", "ld.v2.f32"]
    assert merged(loop.format(step=4)) == ["ld.f32"] * 4


def test_no_unit_is_larger_than_the_alignment_of_its_variable():
    function = module_of(KERNEL.format(body=FOURFOLD + loads(0, 4, 8, 12))).functions["k"]
    for alignment, kinds in ((16, ["v4"]), (8, ["v2", "v2"]), (4, [])):
        changes = merge_accesses(function, {"s": alignment}).values()
        assert [one.modifiers[1] for one in changes if one is not None] == kinds


def loads_of(text: str, relocatable: bool = False) -> list[int]:
    """Return the elements of the loads of a kernel from shared memory, as it is lowered."""
    kernel = lowering.lower_kernel(replace(module_of(text), relocatable=relocatable), "k", {}, 0)
    return [step.count for step in kernel.steps if step.op == "LOAD" and step.space == "SHARED"]


def test_a_variable_is_as_aligned_as_its_place_and_dynamic_memory_as_its_declaration():
    text = KERNEL.format(body=FOURFOLD + loads(0, 4, 8, 12))
    static, behind = ".shared .align 4 .b8 s[4096];", ".shared .align 4 .b8 z[20];"
    assert loads_of(text) == [4]
    assert loads_of(text.replace(static, "").replace(behind, behind + static)) == [1, 1, 1, 1]
    for alignment, elements in ((16, [4]), (8, [2, 2]), (4, [1, 1, 1, 1])):
        dynamic = f".extern .shared .align {alignment} .b8 s[];" + text.replace(static, "")
        assert loads_of(dynamic) == elements


def test_relocatable_code_knows_the_declared_alignment_only():
    text = KERNEL.format(body=FOURFOLD + loads(0, 4, 8, 12))
    for alignment, elements in ((16, [4]), (8, [2, 2]), (4, [1, 1, 1, 1])):
        assert loads_of(text.replace("align 4 .b8 s", f"align {alignment} .b8 s"), relocatable=True) == elements
    # The natural alignment of words is that of one word.
    assert loads_of(text.replace(".align 4 .b8 s[4096]", ".f32 s[1024]"), relocatable=True) == [1, 1, 1, 1]


def test_a_merged_access_is_one_request():
    text = KERNEL.format(body=FOURFOLD + loads(0, 4, 8, 12))
    machine = LoadedModule(module_of(text))
    launched = machine.launch("k", 1, 32, [machine.allocate(np.zeros(32, np.float32), "out"), 5])
    launched.run(0)
    work = launched.last_work()
    assert work.instructions["load_shared"] == 1
    assert work.shared_wavefronts["load_shared"] == 4


# ---- values

PLACES = st.integers(0, 7).map(lambda word: 4 * word)
ADDRESSES = st.sampled_from(["%r6", "%r7", "s"])
ACCESSES = st.one_of(
    st.tuples(st.just("ld"), st.integers(1, 6), ADDRESSES, PLACES),
    st.tuples(st.just("st"), st.integers(1, 6), ADDRESSES, PLACES),
    st.tuples(st.just("v2"), st.integers(1, 5), ADDRESSES, st.integers(0, 3).map(lambda word: 8 * word)),
    st.tuples(st.just("add"), st.integers(1, 6), st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.just("move"), st.sampled_from([4, 16]), st.none(), st.none()),
)


def instruction(kind, first, second, third) -> str:
    if kind == "add":
        return f"add.f32 %f{first}, %f{second}, %f{third};"
    if kind == "move":
        return f"add.s32 %r7, %r7, {first};"
    if kind == "v2":
        return f"ld.shared.v2.f32 {{%f{first}, %f{first + 1}}}, [{second}+{third}];" if second != "%r7" else ""
    operands = f"%f{first}, [{second}+{third}]" if kind == "ld" else f"[{second}+{third}], %f{first}"
    return f"{kind}.shared.f32 {operands};"


@examples(150)
@given(st.lists(ACCESSES, min_size=2, max_size=14))
def test_values_do_not_depend_on_the_merging(program):
    # Each thread has its own 16 words, but for those at `s`, which all threads share: one warp is always in step.
    begin = "shl.b32 %r5, %r2, 6; add.s32 %r6, %r3, %r5; add.s32 %r7, %r6, 32; cvt.rn.f32.u32 %f1, %r2;"
    begin += "".join(f"add.f32 %f{at + 1}, %f{at}, %f{at};" for at in range(1, 6))
    begin += "".join(f"st.shared.f32 [%r6+{4 * at}], %f{at % 5 + 1};" for at in range(16))
    end = "".join(f"add.f32 %f1, %f1, %f{at};" for at in range(2, 7))
    end += "".join(f"ld.shared.f32 %f9, [%r6+{4 * at}]; add.f32 %f1, %f1, %f9;" for at in range(16))
    text = KERNEL.format(body=begin + "".join(instruction(*each) for each in program) + end)
    results = []
    for merge in (merge_accesses, lambda *_: {}):
        out = np.zeros(32, np.float32)
        with patch.object(lowering, "merge_accesses", merge):
            run_kernel(text, "k", 1, 32, [out, 5])
        results.append(out)
    np.testing.assert_array_equal(*results)


SHORT_ACCESSES = st.tuples(
    st.sampled_from(["ld.shared.u16", "ld.shared.s16", "ld.shared.b16", "st.shared.u16"]),
    st.integers(1, 6),
    st.integers(0, 11).map(lambda word: 2 * word),
)


@examples(100)
@given(st.lists(SHORT_ACCESSES, min_size=3, max_size=14))
def test_short_values_do_not_depend_on_the_merging(program):
    body = "shl.b32 %r5, %r2, 6; add.s32 %r6, %r3, %r5; cvt.u16.u32 %h1, %r2;"
    body += "".join(f"add.u16 %h{at + 1}, %h{at}, 7777;" for at in range(1, 6))
    body += "".join(f"st.shared.u16 [%r6+{2 * at}], %h{at % 5 + 1};" for at in range(12))
    for what, register, place in program:
        operands = f"%h{register}, [%r6+{place}]" if what.startswith("ld") else f"[%r6+{place}], %h{register}"
        body += f"{what} {operands};"
    body += "mov.f32 %f1, 0f00000000;"
    body += "".join(
        f"ld.shared.u16 %h{at % 3 + 7}, [%r6+{2 * at}]; mul.lo.u16 %h1, %h1, 3; add.u16 %h1, %h1, %h{at % 3 + 7};"
        for at in range(12)
    )
    body += "".join(f"mul.lo.u16 %h1, %h1, 5; add.u16 %h1, %h1, %h{at};" for at in range(2, 7))
    body += "cvt.rn.f32.u16 %f1, %h1;"
    results = []
    for merge in (merge_accesses, lambda *_: {}):
        out = np.zeros(32, np.float32)
        with patch.object(lowering, "merge_accesses", merge):
            run_kernel(KERNEL.format(body=body), "k", 1, 32, [out, 5])
        results.append(out)
    np.testing.assert_array_equal(*results)
