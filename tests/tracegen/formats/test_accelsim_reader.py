"""Test the Accel-Sim reader against one of regular expressions: rows, opcodes, spaces, widths and the launch."""

import bz2
import gzip
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from rdmodel.trace import Op, Space
from tests.support.accelsim_traces import (
    LOCAL_BASE,
    SHARED_BASE,
    A,
    assert_same,
    files,
    header,
    one_warp,
    rows_of,
    warp_text,
)
from tests.support.plain_accelsim_reader import read_plainly
from tests.support.trace_files import file_writer, relaxed
from tracegen.formats import compressed, sass_opcodes, traceg
from tracegen.formats.accelsim import read_accelsim

LOAD, STORE, ATOMIC, BARRIER = Op
GLOBAL, LOCAL, CONSTANT, TEXTURE = Space


@pytest.fixture
def written(tmp_path):
    """Return a function that writes text or bytes to a file and returns its path."""
    return file_writer(tmp_path, "kernel-1.traceg")


# ---- Laws


@relaxed
@given(text=files())
def test_the_reader_agrees_with_the_plain_one(written, text):
    trace = read_accelsim(written(text))
    trace.columns.check()
    expected = read_plainly(text)
    found = rows_of(trace)
    assert {key: rows for key, rows in found.items() if rows} == {key: rows for key, rows in expected.items() if rows}
    assert {block for block, _ in found} >= {block for block, _ in expected}
    assert not trace.columns.loop_exit.any()


@relaxed
@given(text=files(), chunk=st.integers(1, 400), rows=st.integers(1, 5), memory=st.sampled_from([1, 2000]))
def test_neither_cutting_the_file_nor_the_memory_changes_the_trace(written, text, chunk, rows, memory):
    whole = read_accelsim(written(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compressed, "CHUNK_BYTES", chunk)
        patch.setattr(traceg, "_BUFFERED_INSTRUCTIONS", rows)
        assert_same(read_accelsim(written(text), memory=memory), whole)


@relaxed
@given(text=files())
def test_line_ends_comments_and_a_last_line_of_blanks_do_not_matter(written, text):
    plain = read_accelsim(written(text))
    odd = text.replace("\n", " \t\r\n \r\n").replace("#END_TB", "# why not\n#END_TB").rstrip() + "\n \t"
    head, begin, body = odd.partition("#BEGIN_TB")
    assert_same(read_accelsim(written(head.replace(" \t\r\n", "\r\n") + begin + body.replace("ffff", "FFFF"))), plain)


@pytest.mark.parametrize(
    ("pack", "suffix"), [(gzip.compress, ".gz"), (lzma.compress, ".xz"), (lambda b: b, ""), (lzma.compress, ".txt")]
)
def test_compressed_files_are_read_as_what_they_hold(written, pack, suffix):
    text = one_warp("0010 ffffffff 1 R2 LDG.E 1 R3 4 1 0x100 4")
    assert_same(read_accelsim(written(pack(text.encode()), "a.traceg" + suffix)), read_accelsim(written(text)))


def test_zstd_files_are_read_too(written):
    zstd = pytest.importorskip("backports.zstd")
    text = one_warp("0010 ffffffff 1 R2 LDG.E 1 R3 4 1 0x100 4")
    assert_same(read_accelsim(written(zstd.compress(text.encode()), "a.traceg.zst")), read_accelsim(written(text)))


def test_truncated_and_foreign_compression_is_refused_with_the_name(written):
    text = one_warp(*["0010 ffffffff 1 R2 LDG.E 1 R3 4 1 0x100 4"] * 5000).encode()
    packed = lzma.compress(text)
    with pytest.raises(TraceError, match=r"cut\.traceg\.xz: is damaged or ends early"):
        read_accelsim(written(packed[: len(packed) // 2], "cut.traceg.xz"))
    with pytest.raises(TraceError, match=r"a\.traceg\.bz2:1: "):
        read_accelsim(written(bz2.compress(text), "a.traceg.bz2"))


# ---- Opcodes, spaces, widths


def row_of(written, opcode, address=0x1000, width=4, **options):
    text = one_warp(A, f"0020 00000001 0 {opcode} 0 {width} 0 0x{address:x}", **options)
    rows = rows_of(read_accelsim(written(text)))[0, 0][1:]
    return rows[0][1:4] if rows else None


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("LDG.E.SYS", (LOAD, GLOBAL, 4)),
        ("LDL", (LOAD, LOCAL, 4)),
        ("LDC", (LOAD, CONSTANT, 4)),
        ("TLD.LZ", (LOAD, TEXTURE, 4)),
        ("LDGSTS.E.128", (LOAD, GLOBAL, 16)),
        ("STG.E.U8", (STORE, GLOBAL, 1)),
        ("STL.128", (STORE, LOCAL, 16)),
        ("SUST.D", (STORE, TEXTURE, 4)),
        ("ATOM.E.ADD.F16x2", (ATOMIC, GLOBAL, 4)),
        ("ATOMG.E.CAS.64", (ATOMIC, GLOBAL, 8)),
        ("RED.E.ADD.F64.RN", (ATOMIC, GLOBAL, 8)),
        ("SUATOM.D.ADD", (ATOMIC, TEXTURE, 4)),
        ("LDS.64", None),
        ("STS", None),
        ("ATOMS.ADD", None),
        ("LDSM.16.M88.4", None),
        ("CCTL.E.PF2", None),
    ],
)
def test_the_opcode_says_what_is_done_where_and_with_how_many_bytes(written, opcode, expected):
    assert row_of(written, opcode) == expected


@pytest.mark.parametrize(("window", "space"), [(SHARED_BASE, None), (LOCAL_BASE, LOCAL)])
@pytest.mark.parametrize("opcode", ["LD.E", "ST.E", "ATOM.E.ADD", "RED.E.ADD"])
def test_generic_accesses_go_where_their_window_is(written, opcode, window, space):
    op = {"L": LOAD, "S": STORE}.get(opcode[0], ATOMIC)
    for address in (window, window + (1 << 24) - 1):
        assert row_of(written, opcode, address) == (space if space is None else (op, space, 4))
    for address in (window - 1, window + (1 << 24)):
        assert row_of(written, opcode, address) == (op, GLOBAL, 4)


def test_without_window_addresses_everything_generic_is_global(written):
    text = one_warp(f"0010 00000001 1 R4 LD.E 1 R2 4 0 0x{SHARED_BASE:x}")
    unsaid = text.replace(f"0x{SHARED_BASE:016x}", "0x0").replace(f"0x{LOCAL_BASE:016x}", "0x0")
    assert rows_of(read_accelsim(written(unsaid)))[0, 0][0][1:3] == (LOAD, GLOBAL)


def test_opcodes_agree_with_those_of_the_other_readers(written):
    for base in sorted(sass_opcodes._MEMORY_OPCODES):
        for suffix in ("", ".E", ".64", ".E.U8", ".S16", ".E.128.SYS", ".F64", ".U64"):
            access = sass_opcodes.access_of(base + suffix)
            assert row_of(written, base + suffix) == tuple(access[:3]), base + suffix
    for base in sorted(sass_opcodes._OTHER_OPCODES & {"LDS", "LDSM", "STS", "STSM", "ATOMS", "CCTL", "CCTLL", "CCTLT"}):
        assert row_of(written, base) is None


def test_the_width_is_that_of_the_opcode_else_that_of_the_line(written):
    assert row_of(written, "LDG.E.128", width=4) == (LOAD, GLOBAL, 16)
    assert row_of(written, "LDG.E", width=12) == (LOAD, GLOBAL, 12)
    assert row_of(written, "LDG.E.LTC128B", width=8) == (LOAD, GLOBAL, 8)


def test_the_header_becomes_the_launch(written):
    text = one_warp(A, grid="(1,1,1)", block="(16,2,1)", name="void f<int, 3>(int*) = x")
    launch = read_accelsim(written(text)).launch
    assert launch.kernel == "void f<int, 3>(int*) = x"
    assert (launch.grid, launch.block, launch.registers, launch.shared_memory) == ((1, 1, 1), (16, 2, 1), 7, 64)
    nameless = "\n".join(line for line in text.split("\n") if "kernel name" not in line)
    assert read_accelsim(written(nameless, "my-kernel.traceg")).launch.kernel == "my-kernel"


def test_program_counters_keep_all_their_bits(written):
    assert read_accelsim(written(one_warp(A.replace("0010", "fffffff0", 1)))).columns.pc.tolist() == [-16]


def test_a_block_without_memory_instructions_is_held(written):
    text = header(grid="(3,1,1)")
    for block, line in enumerate(["0000 ffffffff 0 EXIT 0 0", A, "0000 ffffffff 0 EXIT 0 0"]):
        text += f"#BEGIN_TB\nthread block = {block},0,0\n{warp_text([line])}#END_TB\n"
    trace = read_accelsim(written(text))
    assert list(trace.blocks) == [0, 1, 2]
    assert trace.columns.warp_start.tolist() == [0, 0, 1, 1]
