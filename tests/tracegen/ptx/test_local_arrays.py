"""Local arrays that the assembler keeps in registers pass data on as registers do, and are no memory."""

from __future__ import annotations

import numpy as np
import pytest

from rdmodel.trace import Space
from rdmodel.trace.counting import count_work
from tests.support.cubins import cubin
from tests.support.ptx_kernels import HEAD, module_of
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.emulator.emulated_trace import EmulatedTrace
from tracegen.ptx.lowering.lowering import lower_kernel
from tracegen.ptx.registers import local_arrays
from tracegen.ptx.registers.liveness import live_registers
from tracegen.ptx.registers.local_arrays import accesses_local_memory, keeps_arrays
from tracegen.ptx.registers.ptxas import Assembled, find_assemblers
from tracegen.ptx.timing.chains import straight_pieces

LOAD, STORE, OTHER = (0x7983, 0), (0x7387, 0), (0x7918, 0)
"""The lower words of LDL, STL and NOP with the predicate that always holds."""

LATENCIES = {
    "fp32": 4.0, "int": 4.0, "load_global": 100.0, "load_again": 30.0, "load_local": 33.0, "load_constant": 8.0,
    "branch": 4.0, "other": 4.0,
}  # fmt: skip


def kernel(body: str) -> str:
    """Return a kernel in which each thread has its own elements of x and y, and a local array at %a."""
    return f"""{HEAD}.visible .entry k(.param .u64 x, .param .u64 y) {{
    .local .align 16 .b8 array[256]; .reg .b64 %x, %y, %a, %i, %b; .reg .b32 %t, %n; .reg .f32 %f<9>;
    ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; mov.u32 %t, %tid.x; mul.wide.u32 %i, %t, 4;
    add.s64 %x, %x, %i; add.s64 %y, %y, %i; mov.u64 %a, array;
    {body} ret; }}"""


LOADS = "ld.global.f32 %f1, [%x]; ld.global.f32 %f2, [%x+128]; "
THROUGH_ARRAY = f"{LOADS} st.local.f32 [%a+4], %f1; st.local.f32 [%a+8], %f2; ld.local.v2.f32 {{%f3, %f4}}, [%a+4]; "
THROUGH_REGISTERS = "ld.global.f32 %f3, [%x]; ld.global.f32 %f4, [%x+128]; "
END = "sub.f32 %f5, %f3, %f4; st.global.f32 [%y], %f5; "
VARIABLE = f"{LOADS} st.local.f32 [%a], %f1; and.b32 %n, %t, 4; cvt.u64.u32 %b, %n; add.s64 %b, %a, %b; "
VARIABLE += "st.local.f32 [%b], %f2; ld.local.f32 %f3, [%a]; mov.f32 %f4, %f2; "


@pytest.fixture(params=[True, False])
def kept(request, monkeypatch):
    """Return whether the machine code has no accesses to local memory."""
    code = cubin(OTHER, OTHER) if request.param else cubin(OTHER, LOAD, OTHER)
    monkeypatch.setattr(local_arrays, "assemblies", lambda *_: [(80, {"k": Assembled(32, 0, 0, 0, code)})])
    return request.param


def run(body: str, *, values: bool = True):
    """Return the trace of one warp, the numbers that it stores, and those that it should store."""
    machine = LoadedModule(module_of(kernel(body)))
    x, y = np.arange(64, dtype=np.float32) ** 2, np.zeros(32, np.float32)
    args = [machine.allocate(x, "x"), machine.allocate(y, "y")]
    trace = EmulatedTrace(machine.launch("k", 1, 32, args, values=values))
    trace.block(0)
    return trace, y, x[:32] - x[32:]


def rows(trace):
    columns = trace.block(0)
    return {name: getattr(columns, name).tolist() for name in ("op", "space", "gap", "needs", "addresses")}


# ---- machine code


@pytest.mark.parametrize("other", [LOAD, STORE])
def test_machine_code_tells_accesses_to_local_memory(other):
    assert not accesses_local_memory(cubin(OTHER, OTHER), "k", 86)
    assert accesses_local_memory(cubin(OTHER, other, OTHER), "k", 86)


def test_nothing_is_known_of_other_code():
    assert accesses_local_memory(cubin(OTHER), "k", 61)  # instructions of 8 bytes
    assert accesses_local_memory(cubin(OTHER, kernel="other"), "k", 86)
    assert accesses_local_memory(b"", "k", 86)
    assert accesses_local_memory(cubin(), "k", 86)


@pytest.mark.parametrize(
    "body",
    [
        "st.global.f32 [%y], %f1;",
        f"{THROUGH_ARRAY} cvta.local.u64 %b, %a; st.global.u64 [%y], %b;",
        f"{THROUGH_ARRAY} call vprintf;",
    ],
)
def test_the_assembler_is_asked_only_where_its_code_tells_the_place_of_the_arrays(body, monkeypatch):
    monkeypatch.setattr(local_arrays, "assemblies", None)
    assert not keeps_arrays(module_of(kernel(body)), "k", 86)


def test_arrays_are_in_memory_where_no_assembler_is_at_hand(monkeypatch):
    monkeypatch.setattr(local_arrays, "assemblies", lambda *_: [])
    assert not keeps_arrays(module_of(kernel(THROUGH_ARRAY + END)), "k", 86)


@pytest.mark.skipif(not find_assemblers(), reason="needs ptxas")
def test_the_assembler_keeps_an_array_whose_indices_are_known():
    assert keeps_arrays(module_of(kernel(THROUGH_ARRAY + END)), "k", 80)
    index = "ld.global.u32 %n, [%y+{}]; and.b32 %n, %n, 252; cvt.u64.u32 %b, %n; add.s64 %b, %a, %b; "
    unknown = f"{LOADS} {index.format(0)} st.local.f32 [%b], %f1; {index.format(4)} st.local.f32 [%b], %f2; "
    unknown += f"{index.format(8)} ld.local.f32 %f3, [%b]; ld.local.f32 %f4, [%a+64]; "
    assert not keeps_arrays(module_of(kernel(unknown + END)), "k", 80)


# ---- traces


@pytest.mark.parametrize("body", [THROUGH_ARRAY, VARIABLE])
def test_an_array_passes_numbers_on_wherever_it_is(body, kept):
    _, stored, direct = run(body + END)
    second = np.arange(32, 64, dtype=np.float32) ** 2
    indexed = np.where(np.arange(32) & 4, direct, second - second)
    assert stored.tolist() == (direct if body == THROUGH_ARRAY else indexed).tolist()


def test_an_array_in_registers_has_the_trace_of_registers(kept):
    trace, plain = run(THROUGH_ARRAY + END)[0], run(THROUGH_REGISTERS + END)[0]
    found = rows(trace)
    assert (found == rows(plain)) is kept
    assert found["space"].count(int(Space.LOCAL)) == (0 if kept else 3)


@pytest.mark.parametrize("values", [True, False])
def test_an_array_in_registers_has_the_work_of_registers(kept, values):
    work = count_work(run(THROUGH_ARRAY + END, values=values)[0])
    plain = count_work(run(THROUGH_REGISTERS + END, values=values)[0])
    assert (work == plain) is kept
    assert (work.instructions["load_local"], work.instructions["store_local"]) == ((0, 0) if kept else (1, 2))


def test_an_address_that_depends_on_an_array_in_registers_is_known(kept):
    through = "ld.global.f32 %f1, [%x]; st.local.u32 [%a], %t; ld.local.u32 %n, [%a]; mul.wide.u32 %b, %n, 4; "
    through += "add.s64 %b, %y, %b; st.global.f32 [%y], %f1; "
    trace, stored, _ = run(through, values=False)
    assert len(trace.block(0).op) == (2 if kept else 4)
    assert not stored.any()


# ---- time


def longest(body: str, keeps: bool) -> float:
    module = module_of(kernel(body))
    pieces = straight_pieces(lower_kernel(module, "k", {}, 0, keeps_arrays=keeps), live_registers(module, "k"))
    return max(piece.longest_chain(LATENCIES) for piece in pieces)


def test_what_an_array_in_registers_holds_is_waited_for_as_registers_are():
    registers = longest(THROUGH_REGISTERS + END, False)
    assert longest(THROUGH_ARRAY + END, True) == registers >= 100
