"""Cache operators in the traces of other tools: read from opcodes, and written to them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.trace import Columns, Launch, Op, Space, Trace
from rdmodel.trace.cache_ops import CACHE_OP_NAMES, parse_cache_op
from tests.support.accelsim_traces import one_warp
from tests.support.examples import examples
from tracegen.formats import read
from tracegen.formats.accelsim import read_accelsim
from tracegen.formats.accelsim_writer import write_accelsim
from tracegen.formats.sass_opcodes import access_of

OPCODES = {
    "LDG.E": None,
    "LDG.E.SYS": None,
    "LDG.E.64.STRONG.GPU": "cg",
    "LDG.E.STRONG.SYS": "volatile",
    "LDG.E.STRONG.SM": None,
    "LDG.E.MMIO.SYS": "volatile",
    "LDG.E.CONSTANT.SYS": "nc",
    "LDG.E.128.CONSTANT": "nc",
    "LDG.E.CI": "nc",
    "LDG.E.EF": "evict_first",
    "LDG.E.EL": "evict_last",
    "LDG.E.NA": "no_allocate",
    "LDG.E.NA.CONSTANT": "nc.no_allocate",
    "LDG.E.EF.64.STRONG.GPU": "cg",
    "LDG.E.LU": "lu",
    "LDL.LU": "lu",
    "LD.E.CG": "cg",
    "LD.E.CS": "cs",
    "LD.E.CV": "cv",
    "LDG.E.LTC128B.CONSTANT": "nc",
    "LDGSTS.E.BYPASS.LTC128B.128": "async.cg",
    "LDGSTS.E.LTC128B.64": "async.ca",
    "LDC.64": None,
    "STG.E.EF": None,
    "STG.E.STRONG.GPU": None,
    "ATOMG.E.ADD.STRONG.GPU": None,
}


@pytest.mark.parametrize(("opcode", "name"), OPCODES.items())
def test_suffixes_of_opcodes_are_cache_operators_of_loads(opcode, name):
    assert access_of(opcode).cache_op == parse_cache_op(name)


def cache_ops_of(trace):
    columns = trace.columns
    return [0] * len(columns.pc) if columns.cache_op is None else columns.cache_op.tolist()


@examples(30)
@given(st.sampled_from(["LDG", "LD", "LDL", "LDGSTS", "STG"]), st.lists(st.sampled_from(
    ["E", "64", "SYS", "GPU", "SM", "STRONG", "CONSTANT", "CI", "MMIO", "CA", "CG", "CS", "CV", "LU", "NA", "EF", "EL",
     "BYPASS", "LTC128B", "U8", "C", "CGX"]), max_size=6))  # fmt: skip
def test_the_compiled_reader_and_the_other_ones_find_the_same_operators(tmp_path_factory, base, suffixes):
    file = tmp_path_factory.mktemp("t") / "a.traceg"
    opcode = ".".join([base, *suffixes])
    file.write_text(one_warp(f"0020 00000001 0 {opcode} 0 4 0 0x1000"))
    assert cache_ops_of(read_accelsim(file)) == [access_of(opcode).cache_op]


def test_nvbit_traces_have_cache_operators(tmp_path):
    head = (
        "MEMTRACE: CTX 0x1 - LAUNCH - Kernel pc 0x1 - Kernel name k - grid launch id 0 - grid size 1,1,1 - block size "
        "32,1,1 - nregs 8 - shmem 0 - cuda stream id 0\n"
    )
    addresses = " ".join(f"0x{0x7F0000000000 + 4 * lane:x}" for lane in range(32))
    lines = [f"MEMTRACE: CTX 0x1 - grid_launch_id 0 - CTA 0,0,0 - warp 0 - {o} - {addresses} \n" for o in OPCODES]
    (tmp_path / "log").write_text(head + "".join(lines))
    assert cache_ops_of(read(tmp_path / "log")) == [parse_cache_op(name) for name in OPCODES.values()]


def test_ppt_traces_have_cache_operators(tmp_path):
    line = " ".join(f"0x{0x7F0000000000 + 4 * lane:x}" for lane in range(32))
    (tmp_path / "kernel_1_block_0.mem").write_text("".join(f"\n=====\n{opcode} {line} " for opcode in OPCODES))
    found = cache_ops_of(read(tmp_path / "kernel_1_block_0.mem", block=(32, 1, 1)))
    assert found == [parse_cache_op(name) for name in OPCODES.values()]


CHANGED = {
    "ca": None, "cs": "evict_first", "cv": "volatile", "async.ca": None, "async.cg": "cg", "bulk": "cg", "tex": "nc",
    "nc.ca": "nc", "nc.cs": "nc.evict_first",
}  # fmt: skip


@pytest.mark.parametrize("name", CACHE_OP_NAMES.values())
def test_a_written_operator_is_read_again_or_the_loss_is_said(tmp_path, name):
    spaces = np.array([Space.GLOBAL, Space.LOCAL], np.uint8)
    columns = Columns(
        warp_start=np.array([0, 2]), pc=np.array([8, 16]), op=np.full(2, Op.LOAD), space=spaces, size=np.full(2, 4),
        gap=np.zeros(2, int), needs=np.zeros(2, np.uint64), loop_exit=np.zeros(2, bool), mask=np.ones(2, np.uint32),
        address_start=np.arange(3), addresses=np.array([0, 4096]), cache_op=np.full(2, parse_cache_op(name)),
    )  # fmt: skip
    trace = Trace(Launch(kernel="k", grid=(1, 1, 1), block=(32, 1, 1)), columns)
    said = write_accelsim(trace, tmp_path / "a.traceg")
    back = read_accelsim(tmp_path / "a.traceg")
    assert cache_ops_of(back) == [parse_cache_op(CHANGED.get(name, name))] * 2
    assert any(text.startswith("2 cache operators") for text in said) == (name in CHANGED)
    assert back.columns.op.tolist() == [Op.LOAD] * 2
    np.testing.assert_array_equal(back.columns.addresses, trace.columns.addresses)
