"""The Accel-Sim reader against one of regular expressions, what instructions wait for, and every kind of bad file."""

import bz2
import contextlib
import gzip
import itertools
import lzma
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from rdmodel.trace import ALL_NEEDS, LAST_ADDRESS, Op, Space
from tests.support.paths import DATA
from tests.support.plain_accelsim_reader import read_plainly
from tests.support.random_traces import FIELDS
from tracegen import formats
from tracegen.formats import compressed, sass_opcodes, traceg
from tracegen.formats.accelsim import read_accelsim

LOAD, STORE, ATOMIC, BARRIER = Op
GLOBAL, LOCAL, CONSTANT, TEXTURE = Space
CORPUS = DATA / "accelsim"
SHARED_BASE, LOCAL_BASE = 0x7EFEB0000000, 0x7EFEB2000000
BLOCKS = [(32, 1, 1), (33, 1, 1), (1, 1, 1), (8, 8, 2)]
relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100)


@pytest.fixture
def written(tmp_path):
    """Return a function that writes text or bytes to a file and returns its path."""

    def write(text, name="kernel-1.traceg"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def header(*, grid="(1,1,1)", block="(32,1,1)", version=4, name="kernel", more=""):
    return (
        f"-kernel name = {name}\n-kernel id = 1\n-grid dim = {grid}\n-block dim = {block}\n-shmem = 64\n-nregs = 7\n"
        f"-shmem base_addr = 0x{SHARED_BASE:016x}\n-local mem base_addr = 0x{LOCAL_BASE:016x}\n"
        f"-accelsim tracer version = {version}\n{more}\n#traces format = PC mask dest_num ...\n\n"
    )


def warp_text(lines, warp=0):
    return f"warp = {warp}\ninsts = {len(lines)}\n" + "".join(line + "\n" for line in lines)


def one_warp(*lines, **options):
    return header(**options) + f"#BEGIN_TB\n\nthread block = 0,0,0\n\n{warp_text(lines)}\n#END_TB\n"


def rows_of(trace):
    """Return {(block, warp): rows}, a row being (pc, op, space, size, gap, needs, mask, addresses)."""
    result = {}
    for block in trace.blocks:
        c = trace.block(int(block))
        for warp in range(c.warps):
            rows = result[int(block), warp] = []
            for i in range(c.warp_start[warp], c.warp_start[warp + 1]):
                pc = int(c.pc[i]) & 0xFFFFFFFF
                row = (pc, *(getattr(c, name)[i].item() for name in ("op", "space", "size", "gap", "needs", "mask")))
                rows.append((*row, c.addresses[c.address_start[i] : c.address_start[i + 1]].tolist()))
    return result


def needs_of(written, *lines):
    """Return the needs of the memory instructions of one warp as sets of distances."""
    trace = read_accelsim(written(one_warp(*lines)))
    return [{i + 1 for i in range(64) if int(needs) >> i & 1} for needs in trace.columns.needs]


def assert_same(one, other):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one.columns, name), getattr(other.columns, name), name)
    assert list(one.blocks) == list(other.blocks)
    assert one.launch == other.launch


# ---- Random files

MEMORY_OPCODES = [
    *("LDG.E.SYS", "LDG.E.64", "LDG.E.128.CONSTANT.SYS", "LDG.E.U8", "LDG.E.S16", "LDG.E.LTC128B.64", "LD.E", "LDL.64"),
    *("LDC.32", "TLD.LZ", "LDGSTS.E.BYPASS.128", "STG.E", "STG.E.128.SYS", "ST.E.64", "STL", "SUST.D", "RED.E.ADD.F32"),
    *("ATOM.E.ADD.F64", "ATOMG.E.CAS.64", "ATOMG.E.ADD.F16x2.RN", "SUATOM.D", "LDS.U.128", "STS.64", "ATOMS.ADD"),
    *("CCTL.E.PF2", "LDSM.16.M88.4"),
]
OTHER_OPCODES = [
    "IMAD.MOV.U32",
    "FFMA",
    "MOV",
    "BRA",
    "BAR.SYNC",
    "BAR.SYNC.DEFER_BLOCKING",
    "DEPBAR.LE",
    "LDGDEPBAR",
    "LDG.E",
]


def random_access(r, mask, same):
    """Width, mode and addresses; `same` keeps all of an instruction's addresses in one window."""
    lanes = mask.bit_count()
    start = r.choice([r.randrange(1 << 14, LAST_ADDRESS), 1 << 20, SHARED_BASE + 4096, LOCAL_BASE + 4096])
    contiguous = lanes > 0 and (mask // (mask & -mask) + 1).bit_count() == 1
    if contiguous and r.random() < 0.5:
        stride = r.randint(-16, 16)
        return f"4 1 0x{start:x} {-stride if start + stride * 31 > LAST_ADDRESS else stride}"
    room = r.choice([8, 8, 1 << 40]) if not same else 8
    addresses = [start]
    for _ in range(lanes - 1):
        addresses.append(min(max(addresses[-1] + r.randint(-room, room), 0), LAST_ADDRESS))
    if not lanes or r.random() < 0.3:
        return " ".join(["4 0", *(f"0x{a:016x}" for a in addresses[:lanes])])
    deltas = (str(b - a) for a, b in itertools.pairwise(addresses))
    return " ".join([f"4 2 0x{start:x}", *deltas])


def random_instruction(r):
    wide = r.choice([0xFFFFFFFF, 0xFFFFFFFF, r.getrandbits(32), 1 << r.randrange(32)])
    mask = r.choice([wide, 0, ((1 << r.randint(1, 32)) - 1) << r.randrange(32) & 0xFFFFFFFF])
    memory = r.random() < 0.6
    opcode = r.choice(MEMORY_OPCODES if memory else OTHER_OPCODES)
    targets, sources = ([r.choice([*range(7), 254, 255]) for _ in range(r.randint(0, n))] for n in (1, 4))
    named = [" ".join([str(len(some)), *(f"R{n}" for n in some)]) for some in (targets, sources)]
    access = random_access(r, mask, opcode.split(".")[0] in ("LD", "ST", "ATOM", "RED")) if memory else "0"
    return f"{r.randrange(1 << 16):04x} {mask:08x} {named[0]} {opcode} {named[1]} {access}"


@st.composite
def files(draw):
    """A file of one of the layouts; blocks and warps in any order, some missing, some empty."""
    block = draw(st.sampled_from(BLOCKS))
    version = draw(st.sampled_from([1, 3, 4, 5, 6]))
    lined = draw(st.booleans())
    blocks, most = draw(st.integers(1, 3)), draw(st.integers(0, 12))
    r = random.Random(draw(st.integers(0, 1 << 32)))
    tail = {5: " 17", 6: " 3 -1 Val 2 0x1 ff"}.get(version, "")
    text = header(
        grid="(2,3,2)",
        block="({},{},{})".format(*block),
        version="1.2" if version == 1 else version,
        more="-enable lineinfo = 1\n" if lined else "",
    )
    warps = range(-(-block[0] * block[1] * block[2] // 32))
    for i, number in enumerate(r.sample(range(12), blocks)):
        x, y, z = number % 2, number // 2 % 3, number // 6
        text += f"\n#BEGIN_TB\n\nthread block = {x},{y},{z}\n"
        for j, warp in enumerate(r.sample(warps, r.randint(1 - bool(i), len(warps)))):
            lines = [random_instruction(r) + tail for _ in range(r.randint(0, most))]
            if i == j == 0:
                lines.insert(0, "0010 00000001 1 R2 LDG.E 1 R3 4 1 0x100 4" + tail)
            lines = [f"{index} {line}" for index, line in enumerate(lines)] if lined else lines
            lines = [f"{x} {y} {z} {warp} {line}" for line in lines] if version < 3 else lines
            text += "\n" + warp_text(lines, warp)
        text += "\n#END_TB\n"
    return text


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
def test_line_ends_blanks_comments_and_a_missing_last_newline_do_not_matter(written, text):
    plain = read_accelsim(written(text))
    odd = text.replace("\n", " \t\r\n \r\n").replace("#END_TB", "# why not\n#END_TB").rstrip()
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


# ---- What an instruction waits for

A = "0010 ffffffff 1 R4 LDG.E 1 R2 4 1 0x1000 4"
B = "0020 ffffffff 1 R5 LDG.E 1 R2 4 1 0x2000 4"
PUT = "0030 ffffffff 0 STG.E 2 R2 {} 4 1 0x3000 4"
WIDE = "0010 ffffffff 1 R4 LDG.E.64 1 R2 8 1 0x1000 8"
QUAD = "0010 ffffffff 1 R4 LDG.E.128 1 R2 16 1 0x1000 16"


def test_a_store_waits_for_the_load_of_its_value_only(written):
    assert needs_of(written, A, B, PUT.format("R4")) == [set(), set(), {2}]
    assert needs_of(written, A, B, PUT.format("R5")) == [set(), set(), {1}]
    assert needs_of(written, A, B, PUT.format("R6")) == [set(), set(), set()]


def test_a_load_waits_for_the_load_of_its_address(written):
    assert needs_of(written, A, "0020 ffffffff 1 R6 LDG.E 1 R4 4 1 0x9000 4") == [set(), {1}]


def test_arithmetic_on_a_loaded_value_makes_everything_after_it_wait(written):
    add = "0018 ffffffff 1 R9 IADD3 3 R4 R255 R255 0"
    assert needs_of(written, A, add, B, PUT.format("R6")) == [set(), {1}, set()]
    assert read_accelsim(written(one_warp(A, add, B))).columns.gap.tolist() == [0, 1]


def test_shared_memory_that_takes_a_loaded_value_waits_too(written):
    put = "0018 ffffffff 0 STS.64 2 R20 R4 8 1 0x10 8"
    assert needs_of(written, A, B, put, PUT.format("R6")) == [set(), set(), {1, 2}]


def test_a_load_that_has_arrived_is_not_named_again(written):
    assert needs_of(written, A, PUT.format("R4"), PUT.format("R4")) == [set(), {1}, set()]


def test_overwriting_the_register_of_a_load_on_its_way_waits(written):
    assert needs_of(written, A, A, PUT.format("R4")) == [set(), {1}, {1}]
    assert needs_of(written, A, "0018 ffffffff 1 R4 MOV 0 0", B) == [set(), {1}]
    assert needs_of(written, A, "0018 ffffffff 1 R4 LDS 1 R9 4 1 0x0 4", B) == [set(), {1}]


def test_a_register_that_was_overwritten_says_nothing_about_the_load_any_more(written):
    assert needs_of(written, A, B, "0018 ffffffff 1 R4 MOV 0 0", B, PUT.format("R4")) == [set(), set(), {1, 2}, set()]


def test_wide_loads_write_several_registers_and_wide_stores_read_several(written):
    assert needs_of(written, WIDE, PUT.format("R5")) == [set(), {1}]
    assert needs_of(written, WIDE, PUT.format("R6")) == [set(), set()]
    assert needs_of(written, QUAD, PUT.format("R7")) == [set(), {1}]
    assert needs_of(written, QUAD, PUT.format("R8")) == [set(), set()]
    wide_put = "0030 ffffffff 0 STG.E.64 2 R2 R4 8 1 0x3000 8"
    assert needs_of(written, A, B, wide_put) == [set(), set(), {1, 2}]


def test_a_barrier_leaves_the_wait_to_the_next_memory_instruction(written):
    barrier = "0018 ffffffff 0 BAR.SYNC.DEFER_BLOCKING 1 R4 0"
    trace = read_accelsim(written(one_warp(A, barrier, B, PUT.format("R5"))))
    assert trace.columns.op.tolist() == [LOAD, BARRIER, LOAD, STORE]
    assert trace.columns.needs.tolist() == [0, 0, 1, 1]
    assert trace.columns.mask[1] == 0xFFFFFFFF
    assert trace.columns.size[1] == 0


def test_an_instruction_that_is_switched_off_waits_but_writes_nothing(written):
    off = "0018 00000000 1 R4 MOV 1 R5 0"
    assert needs_of(written, A, B, off, PUT.format("R4")) == [set(), set(), {1, 2}]
    off_load = "0018 00000000 1 R6 LDG.E 1 R5 4 1 0x0 0"
    trace = read_accelsim(written(one_warp(A, B, off_load, PUT.format("R6"))))
    assert trace.columns.gap.tolist() == [0, 0, 1]
    assert trace.columns.needs.tolist() == [0, 0, 1]


def test_nobody_waits_for_what_goes_to_the_zero_register(written):
    prefetch = "0010 ffffffff 1 R255 LDG.E 1 R2 4 1 0x1000 4"
    assert needs_of(written, prefetch, PUT.format("R255")) == [set(), set()]


def test_copies_into_shared_memory_are_waited_for_by_depbar(written):
    copy = "0010 ffffffff 0 LDGSTS.E.BYPASS.128 2 R6 R8 16 1 0x7000 16"
    depbar = "0018 ffffffff 0 DEPBAR.LE 0 0"
    assert needs_of(written, copy, A, B) == [set(), set(), set()]
    assert needs_of(written, copy, A, depbar, B) == [set(), set(), {2}]


def test_atomics_return_to_their_target_and_old_tracers_list_that_first(written):
    new = "0010 ffffffff 1 R4 ATOMG.E.ADD.STRONG.GPU 2 R2 R7 4 1 0x1000 4"
    old = "0010 ffffffff 0 ATOMG.E.ADD.STRONG.GPU 3 R4 R2 R7 4 1 0x1000 4"
    reduction = "0010 ffffffff 0 RED.E.ADD.STRONG.GPU 3 R4 R2 R7 4 1 0x1000 4"
    assert needs_of(written, A, new, PUT.format("R4")) == [set(), {1}, {1}]
    assert needs_of(written, A, old, PUT.format("R4")) == [set(), {1}, {1}]
    assert needs_of(written, A, reduction, PUT.format("R4")) == [set(), {1}, set()]


def test_a_file_without_registers_waits_for_everything(written):
    bare = "0010 ffffffff 0 LDG.E 0 4 1 0x1000 4"
    trace = read_accelsim(written(one_warp(bare, "0018 ffffffff 0 FADD 0 0", bare, bare)))
    assert trace.columns.needs.tolist() == [0, ALL_NEEDS, ALL_NEEDS]


def test_a_load_further_back_than_a_mask_reaches_is_not_named(written):
    store = PUT.format("R9")
    assert needs_of(written, A, *[store] * 63, PUT.format("R4"))[-1] == {64}
    assert needs_of(written, A, *[store] * 64, PUT.format("R4"))[-1] == set()


def test_no_load_is_on_its_way_when_a_warp_begins(written):
    two = f"{warp_text([A], 0)}\n{warp_text([PUT.format('R4')], 1)}"
    text = header(block="(64,1,1)") + f"#BEGIN_TB\nthread block = 0,0,0\n{two}\n#END_TB\n"
    assert read_accelsim(written(text)).columns.needs.tolist() == [0, 0]


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
            assert row_of(written, base + suffix) == tuple(access), base + suffix
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


# ---- Bad input

GOOD = one_warp(A)
LINE = 1 + GOOD.split("\n").index(A)


def with_line(line, **options):
    return one_warp(A, line, **options)


def replaced(old, new):
    assert old in GOOD
    return GOOD.replace(old, new, 1)


BAD = [
    ("", "", "is empty"),
    ("\n\n", "", "no thread blocks"),
    (header(), "", "no thread blocks"),
    (b"\x7fELF" + bytes(5000), ":1", "#BEGIN_TB is missing"),
    (GOOD.encode() + bytes(range(256)), ":22", "#BEGIN_TB is missing"),
    ("some text\n", ":1", "#BEGIN_TB is missing"),
    (replaced("-grid dim = (1,1,1)\n", ""), ":14", "no valid line '-grid dim"),
    (replaced("-block dim = (32,1,1)\n", ""), ":14", "no valid line '-block dim"),
    (replaced("-grid dim = (1,1,1)", "-grid dim = (1,1)"), ":3", "grid dim must be (x,y,z)"),
    (replaced("-grid dim = (1,1,1)", "-grid dim = (1,-1,1)"), ":3", "grid dim must be (x,y,z)"),
    (replaced("-grid dim = (1,1,1)", "-grid dim = (1,0,1)"), ":3", "at least 1"),
    (replaced("-grid dim = (1,1,1)", f"-grid dim = ({10**9},{10**9},1)"), ":3", "below 2^58"),
    (replaced("-grid dim = (1,1,1)", f"-grid dim = ({10**40},1,1)"), ":3", "(x,y,z)"),
    (replaced("-block dim = (32,1,1)", "-block dim = (32,33,1)"), ":4", "at most 1024 threads"),
    (replaced("-nregs = 7", "-nregs = many"), ":6", "nregs must be a number"),
    (replaced("-nregs = 7", "-nregs = " + "9" * 5000), ":6", "nregs must be a number"),
    (replaced("-shmem base_addr = 0x", "-shmem base_addr = q"), ":7", "shmem base_addr must be a number"),
    (replaced("-kernel id = 1", "-kernel"), ":2", "expected '-key = value'"),
    (replaced("-kernel id = 1", "x" * 70000), ":2", "#BEGIN_TB is missing"),
    (replaced("-kernel id = 1", "-kernel name = " + "x" * 70000), ":2", "longer than"),
    (replaced("#BEGIN_TB\n", ""), ":14", "#BEGIN_TB is missing"),
    (replaced("thread block = 0,0,0", "thread block = 0,0"), ":15", "expected 'thread block = x,y,z'"),
    (replaced("thread block = 0,0,0", "thread block = 1,0,0"), ":15", "outside the grid (1,1,1)"),
    (replaced("thread block = 0,0,0", f"thread block = 0,0,{2**63}"), ":15", "expected 'thread block"),
    (replaced("thread block = 0,0,0", ""), ":17", "'thread block = x,y,z' is missing"),
    (replaced("warp = 0", ""), ":18", "'warp = W' is missing"),
    (replaced("warp = 0", "warp = 1"), ":17", "W below the warps"),
    (replaced("warp = 0", "warp = -1"), ":17", "expected 'warp = W'"),
    (replaced("warp = 0", f"warp = {10**30}"), ":17", "expected 'warp = W'"),
    (replaced("warp = 0", "warp = 0 0"), ":17", "more fields"),
    (replaced("warp = 0", "warp = 0\nwarp = 0"), ":18", "has this warp already"),
    (replaced("insts = 1\n", ""), ":18", "'insts = N' is missing"),
    (replaced("insts = 1", "insts = x"), ":18", "expected 'insts = N'"),
    (replaced("insts = 1", f"insts = {10**18}"), ":21", f"after 1 instructions, not the {10**18}"),
    (replaced("insts = 1", f"insts = {10**40}"), ":21", "after 1 instructions"),
    (replaced("insts = 1", "insts = 0"), ":21", "after 1 instructions, not the 0"),
    (replaced("#END_TB\n", ""), ":21", "#END_TB is missing"),
    (replaced("#END_TB", "#BEGIN_TB"), ":21", "begins before #END_TB"),
    (GOOD + GOOD[GOOD.index("#BEGIN_TB") :], ":24", "has this block already"),
    (GOOD + "-nregs = 3\n", ":22", "header line after the first block"),
    (GOOD + "#END_TB\n", ":22", "#BEGIN_TB is missing"),
    (GOOD[: GOOD.index(A) + 30], ":19", "the width must be"),
    (one_warp("0000 ffffffff 0 EXIT 0 0"), "", "no memory instructions in 1 blocks"),
    (one_warp(PUT.format("R4")), "", "a kernel without loads"),
    (with_line("x000 ffffffff 0 EXIT 0 0"), ":20", "program counter"),
    (with_line("100000000 ffffffff 0 EXIT 0 0"), ":20", "program counter"),
    (with_line("0000 1ffffffff 0 EXIT 0 0"), ":20", "active mask"),
    (with_line("0000 -1 0 EXIT 0 0"), ":20", "active mask"),
    (with_line("0000"), ":20", "active mask"),
    (with_line("0000 ffffffff 1 EXIT 0 0"), ":20", "registers R0 to R255"),
    (with_line("0000 ffffffff 1 R256 EXIT 0 0"), ":20", "registers R0 to R255"),
    (with_line("0000 ffffffff 17 EXIT 0 0"), ":20", "registers R0 to R255"),
    (with_line(f"0000 ffffffff {10**30} EXIT 0 0"), ":20", "registers R0 to R255"),
    (with_line("0000 ffffffff 0 EXIT 2 R1 0"), ":20", "registers R0 to R255"),
    (with_line("0000 ffffffff 0 exit 0 0"), ":20", "expected an opcode"),
    (with_line("0000 ffffffff 0 " + "E" * 65 + " 0 0"), ":20", "at most 64 bytes"),
    (with_line("0000 ffffffff 0 EXIT 0"), ":20", "width must be"),
    (with_line("0000 ffffffff 0 EXIT 0 0 7"), ":20", "more fields"),
    (with_line("0000 ffffffff 0 EXIT 0 0 0x7"), ":20", "more fields"),
    (with_line("0000 00000001 0 LDG.E 0 17 0 0x0"), ":20", "width must be 0 to 16"),
    (with_line(f"0000 00000001 0 LDG.E 0 {2**64 + 4} 0 0x0"), ":20", "width must be 0 to 16"),
    (with_line("0000 00000001 0 LDG.E 0 4"), ":20", "address mode"),
    (with_line("0000 00000001 0 LDG.E 0 4 3 0x0"), ":20", "address mode"),
    (with_line("0000 00000003 0 LDG.E 0 4 0 0x0"), ":20", "fewer addresses"),
    (with_line("0000 00000003 0 LDG.E 0 4 0 0x0 0x4 0x8"), ":20", "more fields"),
    (with_line("0000 00000003 0 LDG.E 0 4 1 0x0"), ":20", "fewer addresses"),
    (with_line("0000 00000003 0 LDG.E 0 4 1 0x0 4 4"), ":20", "more fields"),
    (with_line("0000 00000003 0 LDG.E 0 4 2 0x0"), ":20", "fewer addresses"),
    (with_line("0000 00000003 0 LDG.E 0 4 2 0x0 4 4"), ":20", "more fields"),
    (with_line("0000 00000003 0 LDG.E 0 4 2 0x0 0x4"), ":20", "fewer addresses"),
    (with_line("0000 00000005 0 LDG.E 0 4 1 0x0 4"), ":20", "need neighbouring active lanes"),
    (with_line("0000 00000001 0 LDG.E 0 4 0 0xg"), ":20", "fewer addresses"),
    (with_line("0000 00000001 0 LDG.E 0 4 0 0x"), ":20", "fewer addresses"),
    (with_line(f"0000 00000001 0 LDG.E 0 4 0 0x{LAST_ADDRESS + 1:x}"), ":20", "an address lies outside"),
    (with_line("0000 00000001 0 LDG.E 0 4 0 0x" + "f" * 40), ":20", "an address lies outside"),
    (with_line(f"0000 00000003 0 LDG.E 0 4 1 0x{LAST_ADDRESS:x} 1"), ":20", "an address lies outside"),
    (with_line("0000 00000003 0 LDG.E 0 4 1 0x3 -4"), ":20", "an address lies outside"),
    (with_line(f"0000 ffffffff 0 LDG.E 0 4 1 0x0 {2**59}"), ":20", "an address lies outside"),
    (with_line(f"0000 ffffffff 0 LDG.E 0 4 1 0x0 {2**64}"), ":20", "an address lies outside"),
    (with_line(f"0000 ffffffff 0 LDG.E 0 4 1 0x7fffffffffffff00 -{2**63}"), ":20", "an address lies outside"),
    (with_line(f"0000 00000003 0 LDG.E 0 4 2 0x10 {2**63 - 1}"), ":20", "an address lies outside"),
    (with_line(f"0000 00000003 0 LDG.E 0 4 2 0x10 -{2**70}"), ":20", "an address lies outside"),
    (with_line("0000 00000003 0 LDG.E 0 4 2 0x10 - 4"), ":20", "fewer addresses"),
    (with_line("0000 00000001 0 UTMALDG.2D 0 16 3 1 0x0"), ":20", "bulk copies"),
    (with_line("0000 00000001 0 IADD3 0 4 0 0x0"), ":20", "not a known memory instruction"),
    (with_line("0000 00000001 0 BAR.SYNC 0 4 0 0x0"), ":20", "not a known memory instruction"),
    (with_line(f"0000 00000003 0 LD.E 0 4 0 0x0 0x{SHARED_BASE:x}"), ":20", "global, local and shared"),
    (with_line(f"0000 00000003 0 ST.E 0 4 0 0x{LOCAL_BASE:x} 0x{SHARED_BASE:x}"), ":20", "global, local and shared"),
    (with_line("0000 ffffffff 0 EXIT 0 0" + " " * 40000), ":20", "longer than"),
    (one_warp(A, version=2), ":19", "must begin with its block and warp"),
    (one_warp("1 0 0 0 " + A, version=2), ":19", "must begin with its block and warp"),
    (one_warp("0 0 0 1 " + A, version=2), ":19", "must begin with its block and warp"),
    (one_warp(A + " 0", version=3), ":19", "more fields"),
    (one_warp(A + " 0", A, version=5), ":20", "fewer fields than on the first"),
    (one_warp(A + " 0", A + " 0 0", version=5), ":20", "more fields"),
    (one_warp(A + " 0", "0000 00000003 0 LDG.E 0 4 0 0x0 8", version=5), ":20", "fewer addresses"),
]


@pytest.mark.parametrize(("text", "where", "problem"), BAD, ids=range(len(BAD)))
def test_a_bad_file_is_refused_with_one_line_that_says_where(written, text, where, problem):
    path = written(text)
    with pytest.raises(TraceError) as error:
        read_accelsim(path)
    message = str(error.value)
    assert message.startswith(f"{path}{where}: ")
    assert problem in message
    assert "\n" not in message
    assert len(message) < len(str(path)) + 240
    with contextlib.suppress(TraceError):
        read_accelsim(path, lenient=True).columns.check()


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.traceg*")), ids=lambda path: path.name)
def test_every_bad_file_of_the_corpus_is_refused_as_its_first_line_says(path):
    expected = path.read_bytes().split(b"\n")[0].decode().removeprefix("# ")
    with pytest.raises(TraceError) as error:
        read_accelsim(path)
    assert str(error.value).removeprefix(str(path)).startswith(expected)


def test_there_is_a_corpus():
    assert len(list(CORPUS.glob("*.traceg*"))) >= 20


def test_an_endless_line_neither_fills_memory_nor_shifts_the_line_numbers(written, monkeypatch):
    monkeypatch.setattr(compressed, "CHUNK_BYTES", 64)
    text = one_warp(A, B + "0" * 100_000, B, "x")
    with pytest.raises(TraceError, match=":20: "):
        read_accelsim(written(text))
    trace = read_accelsim(written(text), lenient=True)
    assert len(trace) == 2
    assert [message.split(": ")[0].rpartition(":")[2] for message in trace.skipped.examples] == ["20", "22"]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(TraceError, match=r"gone\.traceg: cannot be read: No such file"):
        read_accelsim(tmp_path / "gone.traceg")


JUNK = ["junk", "0000 ffffffff 0 EXIT 0", "0000 00000003 1 R4 LDG.E 0 4 0 0x0", "thread block = 0,0,0", "insts = 3"]


@relaxed
@given(text=files(), data=st.data())
def test_lenient_reading_counts_bad_lines_and_keeps_the_rest(written, text, data):
    lines = text.split("\n")
    inside = [i for i, line in enumerate(lines) if line.startswith("insts = ")]
    bad = data.draw(st.lists(st.tuples(st.sampled_from(inside), st.sampled_from(JUNK)), max_size=9))
    mixed = list(lines)
    for i, junk in sorted(bad, reverse=True):
        mixed.insert(i + 1, junk)
    trace = read_accelsim(written("\n".join(mixed)), lenient=True)
    # A bad line makes the count of its warp wrong, too.
    assert trace.skipped.lines == len(bad) + len({i for i, _ in bad})
    assert len(trace.skipped.examples) == min(trace.skipped.lines, 5)
    assert_same(trace, read_accelsim(written(text)))


def test_lenient_reading_leaves_out_what_belongs_to_no_warp_or_block(written):
    begin = "#BEGIN_TB\nthread block = {},0,0\n"
    text = header(grid="(2,1,1)") + begin.format(0) + warp_text([A]) + warp_text([B, B], 5)
    text += begin.format(7) + warp_text([B]) + "#END_TB\n" + begin.format(0) + warp_text([B, B]) + "#END_TB\n"
    trace = read_accelsim(written(text), lenient=True)
    assert rows_of(trace) == {(0, 0): [(0x10, LOAD, GLOBAL, 4, 0, 0, 2**32 - 1, [0x1000 + 4 * i for i in range(32)])]}
    # The wrong warp with its count and two instructions; the block that is not closed; one outside the grid, and one
    # that was there before, each with three and four lines.
    assert trace.skipped.lines == 4 + 1 + 4 + 5


def test_lenient_reading_still_needs_the_shapes(written):
    with pytest.raises(TraceError, match="no valid line '-grid dim"):
        read_accelsim(written(replaced("-grid dim = (1,1,1)", "-grid dim = 1")), lenient=True)


# ---- Mutations


def mutated(random_, text):
    """Return a text with a few bytes, words or lines changed, left out, or put elsewhere."""
    for _ in range(random_.randint(1, 4)):
        lines = text.split(b"\n")
        i, j = random_.randrange(len(lines)), random_.randrange(len(lines))
        at = random_.randrange(len(text) + 1)
        how = random_.randrange(7)
        if how == 0:
            text = text[:at] + bytes([random_.randrange(256)]) + text[at + 1 :]
        elif how == 1:
            text = text[:at] + text[at + random_.randint(1, 9) :]
        elif how == 2:
            lines[i] = lines[j]
            text = b"\n".join(lines)
        elif how == 3:
            del lines[i]
            text = b"\n".join(lines)
        elif how == 4:
            words = lines[i].split(b" ")
            values = [
                b"0",
                b"-1",
                b"ffffffff",
                b"0x7ffffffffffffff0",
                b"999999999999999999999",
                b"R255",
                b"",
                b"\0",
                b"2",
            ]
            words[random_.randrange(len(words))] = random_.choice(values)
            lines[i] = b" ".join(words)
            text = b"\n".join(lines)
        elif how == 5:
            lines.insert(i, lines[j])
            text = b"\n".join(lines)
        else:
            text = text[:at]
    return text


SEEDS = [
    one_warp(A, QUAD, "0018 ffffffff 0 BAR.SYNC 0 0", "0020 0000000f 0 STG.E 2 R2 R4 4 2 0x7efeb2000000 4 -8 12"),
    one_warp(
        *(line + " 7" for line in (A, "0020 00000005 1 R5 LD.E 1 R4 4 0 0x7efeb2000000 0x7efeb2000010")), version=5
    ),
    one_warp(*("0 0 0 0 12 " + line for line in (A, B)), version=1, more="-enable lineinfo = 1\n"),
]


def test_mutated_files_never_do_more_than_raise_a_trace_error(written):
    random_ = random.Random(1)
    for _ in range(300):
        text = mutated(random_, random_.choice(SEEDS).encode())
        for lenient in (False, True):
            with contextlib.suppress(TraceError):
                trace = read_accelsim(written(text), lenient=lenient)
                trace.columns.check()
                assert len(trace) <= text.count(b"\n") + 1


# ---- Lists of kernels


@pytest.fixture
def folder(tmp_path):
    """A folder with a list of three kernels, one of them compressed."""
    names = {1: "void init(float*)", 2: "void gemm_128(float*)", 7: "void gemm_64(float*)"}
    commands = ["MemcpyHtoD,0x00007efe7b500000,2052"]
    for number, name in names.items():
        text = one_warp(A, *[B] * number, name=name).replace("-kernel id = 1", f"-kernel id = {number}")
        file = f"kernel-{number}.traceg" + (".xz" if number == 2 else "")
        (tmp_path / file).write_bytes(lzma.compress(text.encode()) if number == 2 else text.encode())
        commands += [file, "MemcpyDtoH,0x00007efe7b500000,4"]
    (tmp_path / "kernelslist.g").write_text("\n".join(commands) + "\n\n")
    return tmp_path


@pytest.mark.parametrize(("kernel", "number"), [("1", 1), ("2", 2), ("7", 7), ("*init*", 1), ("*_64*", 7)])
def test_a_kernel_is_picked_by_number_or_by_pattern(folder, kernel, number):
    for path in (folder / "kernelslist.g", folder):
        assert len(formats.read(path, kernel=kernel)) == 1 + number


def test_a_list_of_one_kernel_needs_no_choice(folder):
    (folder / "kernelslist.g").write_text("MemcpyHtoD,0x00007efe7b500000,2052\nkernel-1.traceg\n")
    assert len(formats.read(folder / "kernelslist.g")) == 2


@pytest.mark.parametrize("name", ["kernel\x1b[2J.traceg", "kernel-1\u2028.traceg", "kernel\0.traceg"])
def test_a_list_that_names_a_file_with_control_characters_is_refused_with_them_escaped(folder, name):
    (folder / "kernelslist.g").write_text(f"kernel-1.traceg\n{name}\n")
    with pytest.raises(TraceError, match=r"kernelslist\.g:2: expected a kernel's file") as refused:
        formats.read(folder / "kernelslist.g")
    assert str(refused.value).isprintable()
    trace = formats.read(folder / "kernelslist.g", lenient=True)
    assert trace.skipped.lines == 1


@pytest.mark.parametrize("kernel", [None, "*gemm*"])
def test_several_kernels_want_a_choice(folder, kernel):
    with pytest.raises(TraceError, match=r"kernelslist\.g: .*2 \(void gemm_128.*7 \(void gemm_64.*--kernel"):
        formats.read(folder / "kernelslist.g", kernel=kernel)


def test_a_kernel_that_is_not_there_is_refused_with_those_that_are(folder):
    with pytest.raises(TraceError, match=r"no launch matches kernel='3'.* 1 \(void init"):
        formats.read(folder / "kernelslist.g", kernel="3")
    with pytest.raises(TraceError, match=r"kernel-7\.traceg: no launch matches kernel='3'.* 7 \(void gemm_64"):
        formats.read(folder / "kernel-7.traceg", kernel="3")
    assert len(formats.read(folder / "kernel-7.traceg", kernel="*gemm*")) == 8


def test_a_bad_list_is_refused_with_the_line(folder):
    path = folder / "kernelslist.g"
    path.write_text("MemcpyHtoD,0x0,4\nkernel-1.traceg\nlaunch it\n")
    with pytest.raises(
        TraceError, match=r"kernelslist\.g:3: expected a kernel's file or a Memcpy command, found 'laun"
    ):
        formats.read(path)
    assert formats.read(path, lenient=True).skipped.lines == 1
    path.write_text("kernel-9\0.traceg\n")
    with pytest.raises(TraceError, match=r"kernelslist\.g:1: expected a kernel's file"):
        formats.read(path)
    path.write_text("kernel" + "9" * 5000 + ".traceg\n")
    with pytest.raises(TraceError, match=r"\.traceg: cannot be read: File name too long"):
        formats.read(path)
    path.write_text("kernelslist.g\n")
    with pytest.raises(TraceError, match=r"kernelslist\.g:1: #BEGIN_TB is missing"):
        formats.read(path)
    path.write_text("kernel-9.traceg\n")
    with pytest.raises(TraceError, match=r"kernel-9\.traceg: cannot be read: No such file"):
        formats.read(path)
    path.write_text("MemcpyHtoD,0x0,4\n")
    with pytest.raises(TraceError, match="holds no launch"):
        formats.read(path)


@pytest.mark.parametrize("place", ["kernel-7.traceg", "./kernel-7.traceg", "sub/kernel-7.traceg", "{}/kernel-7.traceg"])
def test_a_list_names_files_from_its_own_folder_or_from_the_root(folder, place):
    (folder / "sub").mkdir()
    if "sub" in place:
        (folder / "kernel-7.traceg").rename(folder / "sub" / "kernel-7.traceg")
    list_ = folder / "list"
    list_.write_text("# only one of them\n" + place.format(folder.absolute()) + "\n")
    assert formats.recognise(list_).name == "kernelslist"
    list_.rename(folder / "kernelslist.g")
    assert len(formats.read(folder)) == 8


def test_a_file_that_a_list_names_twice_is_one_kernel(folder):
    (folder / "kernelslist.g").write_text("kernel-7.traceg\nMemcpyDtoH,0x0,4\nkernel-7.traceg\n")
    assert len(formats.read(folder)) == 8


def test_a_file_that_is_gone_is_told_with_the_line_of_the_list(folder):
    (folder / "kernelslist.g").write_text("kernel-7.traceg\nkernel-9.traceg\n")
    with pytest.raises(TraceError, match=r"kernelslist\.g:2: .*kernel-9\.traceg: cannot be read: No such file"):
        formats.read(folder, kernel="7")
    trace = formats.read(folder, kernel="7", lenient=True)
    assert (len(trace), trace.skipped.lines) == (8, 1)


def test_formats_are_recognised_by_content_then_by_extension(written):
    assert formats.recognise(written(GOOD, "no-extension")).name == "accelsim"
    assert formats.recognise(written("kernel-1.traceg\n", "no-extension")).name == "kernelslist"
    assert formats.recognise(written("MemcpyHtoD,0x0,4\nkernel-1.traceg.xz\n", "list")).name == "kernelslist"
    assert formats.recognise(written("junk", "a.traceg")).name == "accelsim"
    assert formats.recognise(written("junk", "a.g")).name == "kernelslist"
    assert formats.recognise(written(lzma.compress(GOOD.encode()), "packed")).name == "accelsim"
