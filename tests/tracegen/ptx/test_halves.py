"""Arithmetic of half precision that is contracted and packed, and conversions of constants that are folded."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.trace import Work
from tests.support.examples import examples
from tests.support.ptx_kernels import module_of
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.lowering.block_codes import block_codes
from tracegen.ptx.lowering.contraction import contract_products
from tracegen.ptx.lowering.lowering import lower_kernel
from tracegen.ptx.lowering.packing import pack_halves
from tracegen.ptx.lowering.straight_code import basic_blocks
from tracegen.ptx.syntax.ast import Function
from tracegen.ptx.timing.chains import straight_pieces

KERNEL = """
.visible .entry k(.param .u64 out, .param .u32 n)
{{
    .reg .b64 %q<6>;
    .reg .b32 %r<20>;
    .reg .b16 %h<400>;
    .reg .f32 %f<20>;
    .reg .pred %p<4>;
    ld.param.u64 %q1, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.lt.u32 %p1, %r2, %r1;
    {body}
    ret;
}}
"""

FIRST = 4
"""Number of the first instruction of `body`."""


def function_of(body: str) -> Function:
    return module_of(KERNEL.format(body=body)).functions["k"]


def classes_of(body: str) -> list[dict[str, int] | None]:
    """Return the machine instructions of each instruction of a body by class; None for those of its kind."""
    function = function_of(body)
    found = block_codes(function.body, set(function.labels.values()))
    codes = [found.get(at) for at in range(FIRST, len(function.body) - 1)]
    return [None if code is None else dict(code.classes) for code in codes]


def work_of(body: str) -> Work:
    machine = LoadedModule(module_of(KERNEL.format(body=body)))
    launched = machine.launch("k", 1, 32, [machine.allocate(np.zeros(512, np.float32), "out"), 5])
    launched.run(0)
    return launched.last_work()


def sums(count: int, length: int = 1) -> str:
    """Return chains of products that are added, as ``cuda_fp16.h`` has them."""
    text = "".join(f"ld.global.u16 %h{at}, [%q1+{2 * at}];" for at in range(count))
    for at in range(count):
        for _ in range(length):
            text += f"mul.f16 %h90, %h{at}, %h{at}; add.f16 %h{at}, %h{at}, %h90;"
    return text + "".join(f"st.global.u16 [%q1+{2 * at}], %h{at};" for at in range(count))


@pytest.mark.parametrize(("count", "length", "expected"), [(1, 1, 1), (1, 8, 8), (2, 8, 8), (4, 4, 8), (5, 1, 3)])
def test_two_products_with_their_sums_are_one_instruction_unless_one_needs_the_other(count, length, expected):
    work = work_of(sums(count, length))
    assert work.instructions["fp16"] == expected
    assert work.operations["fp16_fma"] == 32 * count * length
    assert not work.operations["fp16_mul"] and not work.operations["fp16_add"]


def test_operations_with_a_rounding_mode_are_packed_and_not_contracted():
    work = work_of(sums(4).replace("mul.f16", "mul.rn.f16").replace("add.f16", "add.rn.f16"))
    assert work.instructions["fp16"] == 4
    assert work.operations["fp16_mul"] == work.operations["fp16_add"] == 128


def test_a_product_that_something_else_uses_stays():
    product, total = "mul.f32 %f3, %f1, %f2;", "add.f32 %f4, %f3, %f1;"
    assert classes_of(product + total) == [{}, {"fp32": 1}]
    assert classes_of(f"{product}{total} sub.f32 %f5, %f2, %f3;") == [{}, {"fp32": 1}, {"fp32": 1}]
    for other in ("st.global.f32 [%q1], %f3;", "add.f32 %f5, %f3, %f3;", "add.rn.f32 %f5, %f3, %f1;", "$next:" + total):
        assert classes_of(product + total + other)[0] is None
    assert classes_of(f"{product} @%p1 mov.f32 %f3, %f1; {total}")[0] is None


def test_a_product_that_the_next_iteration_reads_stays():
    loop = "$loop: add.f32 %f4, %f4, %f3; mul.f32 %f3, %f1, %f2; add.f32 %f5, %f3, %f1; @%p1 bra $loop;"
    assert classes_of(loop)[1] is None
    assert classes_of(loop.replace("%f4, %f4, %f3", "%f4, %f4, %f1"))[1] == {}


def test_halves_of_one_register_need_no_permutation():
    load = "ld.global.v2.u16 {%h0, %h1}, [%q1]; ld.global.v2.u16 {%h2, %h3}, [%q1+4];"
    pair = "add.f16 %h4, %h0, %h2; add.f16 %h5, %h1, %h3;"
    assert classes_of(load + pair)[-1] == {}
    assert classes_of(load + pair + "st.global.v2.u16 [%q1], {%h4, %h5};")[-2] == {}
    assert classes_of(load + pair + "st.global.u16 [%q1], %h5;")[-2] == {"int": 1}
    alone = "ld.global.u16 %h0, [%q1]; ld.global.u16 %h1, [%q1+6]; ld.global.v2.u16 {%h2, %h3}, [%q1+4];"
    assert classes_of(alone + pair)[-1] == {"int": 1}


@pytest.mark.parametrize(
    ("conversion", "is_folded"),
    [
        ("mov.u32 %r5, 0; cvt.rn.f16.s32 %h1, %r5;", True),
        ("cvt.rn.f16.s32 %h1, 0;", True),
        ("mov.u32 %r5, 7; cvt.rn.f16.s32 %h1, %r5;", False),
        ("mov.u32 %r5, 7; cvt.rn.f32.s32 %f1, %r5;", True),
        ("mov.f32 %f1, 0f40400000; cvt.rn.f16.f32 %h1, %f1;", True),
        ("cvt.rn.f16.f32 %h2, 0f40400000; cvt.f32.f16 %f1, %h2;", True),
        ("mov.f32 %f1, 0f40400000; cvt.rn.bf16x2.f32 %r5, %f1, %f1;", False),
        ("mov.u32 %r5, 0; @%p1 mov.u32 %r5, 1; cvt.rn.f32.s32 %f1, %r5;", False),
        ("mov.u32 %r5, 1; mov.u32 %r5, 2; cvt.rn.f32.s32 %f1, %r5;", False),
        ("cvt.rn.f32.u32 %f1, %r1;", False),
    ],
)
def test_conversions_of_constants_cost_nothing_where_the_assembler_computes_them(conversion, is_folded):
    assert classes_of(conversion)[-1] == ({} if is_folded else None)


def test_a_pair_takes_the_unit_once_and_each_half_the_latency():
    kernel = lower_kernel(module_of(KERNEL.format(body=sums(2, 2))), "k", {}, 0)
    pieces = straight_pieces(kernel, {})
    assert sum(piece.classes.get("fp16", 0) for piece in pieces) == 2
    assert sum(link.latency == "fp16" for piece in pieces for link in piece.links) == 4


# ---- any block

OPERATIONS = st.tuples(st.sampled_from(["add.f16", "mul.rn.f16", "add.f16", "mov.b16"]), *[st.integers(0, 5)] * 3)


@examples(200)
@given(st.lists(OPERATIONS, min_size=2, max_size=24))
def test_packed_operations_can_be_put_in_an_order(program):
    # An order exists if no operation needs itself when both halves of each pair need what either does.
    text = "".join(f"{what} %h{to}, %h{a}" + (";" if what == "mov.b16" else f", %h{b};") for what, to, a, b in program)
    function = function_of(text)
    blocks = [*basic_blocks(function.body, set())]
    contraction = contract_products(function.body, blocks)
    pairs = {at: pair.first for at, pair in pack_halves(function.body, blocks, contraction).items()}
    needs: dict[int, set[int]] = {}
    writer: dict[int, int] = {}
    for at, (what, to, a, b) in enumerate(program, start=FIRST):
        needs[at] = {writer[each] for each in ((a,) if what == "mov.b16" else (a, b)) if each in writer}
        writer[to] = at
    kinds = dict(enumerate((what for what, *_ in program), start=FIRST))
    assert all(kinds[at] == kinds[first] for at, first in pairs.items())
    assert len({*pairs, *pairs.values()}) == 2 * len(pairs)
    node = {at: pairs.get(at, at) for at in needs}
    graph: dict[int, set[int]] = {}
    for at, found in needs.items():
        graph.setdefault(node[at], set()).update(node[each] for each in found)
    while ready := [each for each, found in graph.items() if not found & graph.keys()]:
        graph = {each: found for each, found in graph.items() if each not in ready}
    assert not graph


def test_blocks_begin_at_labels_and_end_behind_branches():
    body = "mov.u32 %r3, 1; $loop: add.u32 %r3, %r3, 1; @%p1 bra $loop; mov.u32 %r4, 2;"
    function = function_of(body)
    blocks = [*basic_blocks(function.body, set(function.labels.values()))]
    assert [(block.start, block.stop) for block in blocks] == [(0, 5), (5, 7), (7, 9)]
    assert all(first.stop == then.start for first, then in pairwise(blocks))
