"""A load that decides about addresses needs the stores to its own array only."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.ptx_kernels import HEAD, module_of
from tracegen.ptx.emulator.emulated_launch import LoadedModule

REGISTERS = """
    .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p<3>; .reg .b64 %a, %b, %out;
    ld.param.u64 %a, [a]; ld.param.u64 %b, [b];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4;
    add.s64 %rd2, %a, %rd1; add.s64 %out, %b, %rd1;
"""


def executed(body: str, *, same: bool = False, values: bool = False) -> tuple[list[int], list[int]]:
    """Return a and b (256 numbers each; one array if `same`) after k(a, b), whose stores run only if they matter."""
    machine = LoadedModule(
        module_of(f"{HEAD}.visible .entry k(.param .u64 a, .param .u64 b) {{{REGISTERS}{body}\n ret;}}")
    )
    a, b = np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)
    first = machine.allocate(a, "a")
    second = first if same else machine.allocate(b, "b")
    machine.launch("k", 1, 32, [first, second], values=values).run(0)
    return a.tolist(), b.tolist()


GATHER = "ld.global.u32 %r2, [%rd2]; mul.wide.u32 %rd3, %r2, 4; add.s64 %rd4, %a, %rd3; ld.global.u32 %r3, [%rd4];"


def test_a_store_to_another_array_is_left_out():
    assert executed(f"{GATHER} st.global.u32 [%out], 7;")[1] == [0] * 256
    assert executed(f"{GATHER} st.global.u32 [%out], 7;", values=True)[1] == [7] * 32 + [0] * 224


@pytest.mark.parametrize(
    "store",
    [
        "st.global.u32 [%rd2+64], 7;",
        "mov.b64 {%r4, %r5}, %a; mov.b64 %rd5, {%r4, %r5}; st.global.u32 [%rd5], 7;",
        "setp.lt.u32 %p1, %r1, 99; selp.b64 %rd5, %a, %b, %p1; st.global.u32 [%rd5], 7;",
        "sub.s64 %rd5, %a, %b; add.s64 %rd6, %b, %rd5; st.global.u32 [%rd6], 7;",
    ],
)
def test_a_store_that_may_reach_the_array_is_executed(store):
    assert 7 in executed(f"{GATHER} {store}")[0][8:] + executed(f"{GATHER} {store}")[0][:1]


def test_one_array_that_is_given_twice_is_one_array():
    assert executed(f"{GATHER} st.global.u32 [%out], 7;", same=True)[0][:32] == [7] * 32


@pytest.mark.parametrize(
    "pointer",
    [
        "ld.global.u64 %rd5, [%b];",
        "ld.global.v2.u32 {%r4, %r5}, [%b]; mov.b64 %rd5, {%r4, %r5};",
        "ld.global.u32 %r4, [%b]; ld.global.u32 %r5, [%b+4]; cvt.u64.u32 %rd5, %r4; cvt.u64.u32 %rd6, %r5;"
        " shl.b64 %rd6, %rd6, 32; or.b64 %rd5, %rd5, %rd6;",
    ],
)
def test_a_pointer_that_was_loaded_may_reach_any_array(pointer):
    save = "st.global.u64 [%b], %a; bar.sync 0;"
    assert executed(f"{save} {pointer} {GATHER} st.global.u32 [%rd5+800], 7;")[0][200] == 7


def test_an_index_that_was_loaded_stays_in_its_array():
    scatter = "ld.global.u32 %r4, [%rd2]; cvt.u64.u32 %rd5, %r4; shl.b64 %rd5, %rd5, 2; add.s64 %rd6, %b, %rd5;"
    assert executed(f"{GATHER} {scatter} st.global.u32 [%rd6], 7;")[1] == [0] * 256
