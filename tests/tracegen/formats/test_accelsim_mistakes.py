"""Test the refusal of bad Accel-Sim files with the line at fault, and lenient reading of the rest."""

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from rdmodel.trace import LAST_ADDRESS, Op, Space
from tests.support.accelsim_traces import (
    LOCAL_BASE,
    PUT,
    QUAD,
    SHARED_BASE,
    A,
    B,
    assert_same,
    files,
    header,
    one_warp,
    rows_of,
    warp_text,
)
from tests.support.paths import DATA
from tests.support.trace_files import file_writer, relaxed
from tracegen.formats import compressed
from tracegen.formats.accelsim import read_accelsim

LOAD, STORE, ATOMIC, BARRIER = Op
GLOBAL, LOCAL, CONSTANT, TEXTURE = Space
CORPUS = DATA / "accelsim"


@pytest.fixture
def written(tmp_path):
    """Return a function that writes text or bytes to a file and returns its path."""
    return file_writer(tmp_path, "kernel-1.traceg")


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
    (b"\x7fELF" + bytes(5000) + b"\n", ":1", "#BEGIN_TB is missing"),
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
    (GOOD[: GOOD.index(A) + 30] + "\n", ":19", "the width must be"),
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
    with pytest.raises(TraceError, match=r"gone\.traceg: No such file"):
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
