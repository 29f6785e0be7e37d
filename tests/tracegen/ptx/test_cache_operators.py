"""The cache operators of PTX loads are those of the recorded instructions."""

from __future__ import annotations

import pytest

from rdmodel.trace import Op, Space
from rdmodel.trace.cache_ops import CACHE_OP_NAMES
from tests.support.ptx_kernels import module_of
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.emulator.emulated_trace import EmulatedTrace
from tracegen.ptx.registers import local_arrays

KERNEL = """
.entry k(.param .u64 x) {
  .reg .b32 %r<9>; .reg .b64 %rd<9>; .local .u32 v; .shared .u32 tile;
  ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2;
"""


@pytest.fixture(autouse=True)
def arrays_in_memory(monkeypatch):
    """Hide the assembler, which would have these small arrays in registers."""
    monkeypatch.setattr(local_arrays, "assemblies", lambda *_: [])


def trace_of(body):
    machine = LoadedModule(module_of(KERNEL + body + " ret; }"))
    return EmulatedTrace(machine.launch("k", 1, 32, [machine.allocate(4096, "x")], values=False))


OPERATORS = {
    "ca": "ca",
    "cg": "cg",
    "cs": "cs",
    "lu": "lu",
    "cv": "cv",
    "volatile": "volatile",
    "relaxed.gpu": "volatile",
    "acquire.sys": "volatile",
    "mmio.relaxed.sys": "volatile",
    "L1::no_allocate": "no_allocate",
    "L1::evict_first": "evict_first",
    "L1::evict_last": "evict_last",
}


@pytest.mark.parametrize(("modifiers", "name"), OPERATORS.items())
@pytest.mark.parametrize("space", ["global", "local"])
def test_a_load_has_its_operator(modifiers, name, space):
    address = "%rd2" if space == "global" else "v"
    columns = trace_of(f"ld.{modifiers}.{space}.u32 %r2, [{address}];").block(0)
    assert [CACHE_OP_NAMES[number] for number in columns.cache_op] == [name]
    assert columns.space.tolist() == [Space[space.upper()]]


@pytest.mark.parametrize(
    ("modifiers", "name"),
    [
        ("nc", "nc"),
        ("nc.L2::128B", "nc"),
        ("nc.L1::no_allocate", "nc.no_allocate"),
        ("nc.L1::evict_last", "nc.evict_last"),
    ],
)
def test_a_read_only_load_is_marked_beside_its_operator(modifiers, name):
    columns = trace_of(f"ld.global.{modifiers}.u32 %r2, [%rd2];").block(0)
    assert [CACHE_OP_NAMES[number] for number in columns.cache_op] == [name]


@pytest.mark.parametrize(
    "body",
    [
        "ld.global.u32 %r2, [%rd2];",
        "ld.relaxed.cta.global.u32 %r2, [%rd2];",
        "ld.global.u32 %r2, [%rd2]; ld.volatile.shared.u32 %r2, [tile];",
        "st.volatile.global.u32 [%rd2], 1;",
        "st.cg.global.u32 [%rd2], 1;",
        "atom.global.add.u32 %r2, [%rd2], 1;",
    ],
)
def test_other_accesses_have_none(body):
    trace = trace_of(body)
    columns = trace.block(0)
    assert columns.cache_op is None or not columns.cache_op.any()
    assert trace.notes == ()


def test_only_the_load_that_has_the_operator_is_marked():
    body = "ld.global.u32 %r2, [%rd2]; ld.global.cg.u32 %r3, [%rd2]; st.global.cg.u32 [%rd2], %r3;"
    trace = trace_of(body)
    columns = trace.block(0)
    assert columns.op.tolist() == [Op.LOAD, Op.LOAD, Op.STORE]
    assert [CACHE_OP_NAMES.get(number) for number in columns.cache_op] == [None, "cg", None]
    assert trace.may_have_cache_ops
    assert not trace_of("ld.global.u32 %r2, [%rd2];").may_have_cache_ops
