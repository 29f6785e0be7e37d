"""The reader of NVBit's mem_trace against a parser of a few regular expressions, and every kind of bad file."""

import contextlib
import gzip
import random
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from rdmodel.cli import main
from rdmodel.errors import TraceError
from rdmodel.trace import ALL_NEEDS, LAST_ADDRESS, Op, Space
from tests.support.damage import damaged
from tests.support.examples import examples
from tests.support.nvbit_texts import header, lanes, record
from tests.support.paths import DATA as TEST_DATA
from tracegen import formats
from tracegen.formats import compressed
from tracegen.formats.nvbit import read_nvbit
from tracegen.formats.sass_opcodes import access_of

DATA = TEST_DATA / "formats"
relaxed = examples(50, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def written(tmp_path):
    def write(text, name="kernel.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


# ---- The oracle: regular expressions and dicts

KNOWN = {"LDG": (0, 0), "LD": (0, 0), "LDL": (0, 1), "LDC": (0, 2), "STG": (1, 0), "ST": (1, 0), "STL": (1, 1)}
KNOWN |= {"ATOM": (2, 0), "ATOMG": (2, 0), "RED": (2, 0)}
WIDTH = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


def parse_plainly(text, launch=0):
    """Return {(block, warp): [(opcode number, op, space, size, gap, {lane: address})]} of a launch in one file."""
    grid = [int(n) for n in re.search(rf"grid launch id {launch} - grid size (\d+),(\d+),(\d+)", text).groups()]
    pattern = rf"MEMTRACE: CTX \w+ - grid_launch_id {launch} - CTA (\d+),(\d+),(\d+) - warp (\d+) - ([\w.]+) - (.*)"
    opcodes, warps, gaps = {}, {}, {}
    for x, y, z, warp, opcode, addresses in re.findall(pattern, text):
        place = int(x) + grid[0] * (int(y) + grid[1] * int(z)), int(warp)
        number = opcodes.setdefault(opcode, len(opcodes))
        active = {lane: int(a, 16) for lane, a in enumerate(addresses.split()) if int(a, 16)}
        name, *suffixes = opcode.split(".")
        if name == "LDGSTS" and all(address < 2**18 for address in active.values()):
            continue
        warps.setdefault(place, [])
        if name not in (*KNOWN, "LDGSTS") or not active:
            gaps[place] = gaps.get(place, 0) + 1
            continue
        size = next((WIDTH[s] for s in suffixes if s in WIDTH), 4)
        warps[place].append((number, *KNOWN.get(name, (0, 0)), size, gaps.pop(place, 0), active))
    return warps


def rows_of(trace):
    """Return the same of a trace."""
    trace.columns.check()
    result = {}
    for block in trace.blocks:
        columns = trace.block(block)
        for warp in range(columns.warps):
            rows = result[block, warp] = []
            for i in range(columns.warp_start[warp], columns.warp_start[warp + 1]):
                active = [lane for lane in range(32) if columns.mask[i] >> lane & 1]
                held = columns.addresses[columns.address_start[i] : columns.address_start[i + 1]].tolist()
                fields = (int(getattr(columns, name)[i]) for name in ("pc", "op", "space", "size", "gap"))
                rows.append((*fields, dict(zip(active, held, strict=True))))
    return result


OPCODES = ["LDG.E.SYS", "LDG.E.64", "LDG.E.128.CONSTANT", "LDG.E.U8", "STG.E.S16", "LD.E", "ST.E.U16", "LDL.64", "STL"]
OPCODES += ["ATOMG.E.ADD.STRONG.GPU", "RED.E.ADD", "LDS.U.32", "STS", "ATOMS.ADD", "LDC.U16", "LDGSTS.E.BYPASS.128"]
NOISE = ["Hello from the program\n", "\n", "result = ", "MEMTRACE\n", "MEMTRACE: STARTING CONTEXT 0x55\n", "M M\n"]


@st.composite
def address(draw):
    kind = draw(st.integers(0, 9))
    return 0 if kind < 3 else draw(st.integers(1, LAST_ADDRESS)) if kind < 6 else draw(st.integers(1, 2**20))


@st.composite
def files(draw):
    """Two launches with interleaved records, of warps within their blocks, between lines of the program."""
    lines = []
    for _ in range(draw(st.integers(0, 30))):
        cta = draw(st.integers(0, 3)), draw(st.integers(0, 1)), 0
        place = {"cta": cta, "warp": draw(st.integers(0, 1)), "launch": draw(st.sampled_from([0, 0, 0, 1]))}
        values = draw(st.one_of(st.just(lanes()), st.lists(address(), min_size=32, max_size=32)))
        lines.append(record(values, opcode=draw(st.sampled_from(OPCODES)), **place))
    lines.insert(draw(st.integers(0, len(lines))), record(lanes(), warp=1))
    for noise in draw(st.lists(st.sampled_from(NOISE), max_size=5)):
        lines.insert(draw(st.integers(0, len(lines))), noise)
    return header() + header(1, name="other", grid=(4, 2, 1)) + "".join(lines)


# ---- Laws


@relaxed
@given(text=files(), memory=st.sampled_from([0, 1 << 20]), chunk=st.sampled_from([200, 1000, 1 << 20]))
def test_every_instruction_arrives_once_in_order_in_its_warp(written, text, memory, chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compressed, "CHUNK_BYTES", chunk)
        trace = read_nvbit(written(text), kernel="0", memory=memory)
    expected = parse_plainly(text)
    assert {place: rows for place, rows in rows_of(trace).items() if rows or place in expected} == expected
    assert list(trace.blocks) == sorted({block for block, _ in expected})
    assert (trace.columns.needs == ALL_NEEDS).all()
    assert not trace.columns.loop_exit.any()


@relaxed
@given(text=files())
def test_pages_of_temporary_files_are_given_back_and_come_again(written, text):
    trace, held = (read_nvbit(written(text), kernel="0", memory=memory) for memory in (0, 1 << 20))
    before = rows_of(trace)
    assert trace.pages is not None
    trace.pages.give_back()
    assert rows_of(trace) == before == rows_of(held)


@relaxed
@given(text=files())
def test_the_other_launch_is_there_as_well(written, text):
    expected = parse_plainly(text, launch=1)
    if any(expected.values()):
        found = rows_of(read_nvbit(written(text), kernel="other"))
        assert {place: rows for place, rows in found.items() if rows or place in expected} == expected
    else:
        with pytest.raises(TraceError, match="launch 1: "):
            read_nvbit(written(text), kernel="other")


@relaxed
@given(number=st.integers(0, 2**64), digits=st.integers(1, 16), upper=st.booleans())
def test_addresses_are_read_in_any_length_and_case(written, number, digits, upper):
    word = f"{number % 16**digits or 1:0{digits}{'X' if upper else 'x'}}"
    text = header() + record(lanes()).replace("0x0000000000001000", "0x" + word)
    if int(word, 16) > LAST_ADDRESS:
        with pytest.raises(TraceError, match=":2: addresses must be at most"):
            read_nvbit(written(text))
    else:
        assert read_nvbit(written(text)).columns.addresses.tolist() == [int(word, 16), *lanes()[1:]]


@pytest.mark.parametrize(
    ("number", "position"),
    [
        *(("0x7abcdef012345678", position) for position in (0, 1, 2, 9, 10, 17, 18, 19)),
        *((f"0x{'9afe' * 4}"[: 2 + digits], position) for digits in (7, 8, 9, 15) for position in (2, digits + 2)),
        ("0x9", 3),
        ("0x12345", 5),
        ("0x12345678", 8),
        ("0x123456789abc", 12),
    ],
)
def test_no_character_but_a_hexadecimal_digit_passes_for_one(written, number, position):
    good = record(lanes()).replace("0x0000000000001000", number)
    at = good.index(number)
    for code in range(256):
        data = bytearray((header() + good).encode())
        data[len(header()) + at + position] = code
        text = bytes(data)
        word = re.fullmatch(rb"MEMTRACE: .* - (?:0[xX][0-9a-fA-F]{1,16}(?: |$)){32}\r?\n?", text.split(b"\n", 1)[1])
        first = int(text[len(header()) + at :].split()[0], 16) if word else -1
        if not 0 <= first <= LAST_ADDRESS:
            with pytest.raises(TraceError):
                read_nvbit(written(text))
        else:
            assert read_nvbit(written(text)).columns.addresses[0] == first


# ---- Scenarios


def test_the_launch_is_that_of_its_header(written):
    launch = read_nvbit(written(header(grid=(4, 2, 3), block=(8, 4, 2), nregs=40, shmem=2048) + record(lanes()))).launch
    assert (launch.kernel, launch.grid, launch.block) == ("scale(float*, int)", (4, 2, 3), (8, 4, 2))
    assert (launch.registers, launch.shared_memory) == (40, 2048)


def test_the_older_form_of_the_header_is_read(written):
    assert len(read_nvbit(written(header(pc="") + record(lanes())))) == 1
    assert len(read_nvbit(written(header().replace(" - cuda stream id 0", "") + record(lanes())))) == 1


def test_blocks_are_numbered_row_by_row(written):
    text = header(grid=(4, 2, 3)) + record(lanes(), cta=(1, 1, 2)) + record(lanes(), cta=(3, 0, 0))
    assert list(read_nvbit(written(text)).blocks) == [3, 1 + 4 * (1 + 2 * 2)]


def test_what_the_program_writes_may_be_in_front_of_a_record(written):
    text = header() + "M: 3 % done" + record(lanes()) + "MEM" + record(lanes())
    assert len(read_nvbit(written(text))) == 2


def test_lines_may_end_as_windows_ends_them(written):
    text = (header() + record(lanes()) + "the program\n").replace("\n", "\r\n")
    assert len(read_nvbit(written(text))) == 1


def test_warps_in_slots_of_the_sm_are_ranked(written):
    """Blocks of two warps; block 0 names them 0 and 1, block 1 sat in slots 8 and 11."""
    text = header()
    for cta, warp, first in [(1, 11, 1), (0, 1, 2), (1, 8, 3), (1, 11, 4), (0, 1, 5)]:
        text += record(lanes(first=first * 4096), cta=(cta, 0, 0), warp=warp)
    found = rows_of(read_nvbit(written(text)))
    rows = {place: [min(row[-1].values()) // 4096 for row in warp] for place, warp in found.items()}
    assert rows == {(0, 0): [], (0, 1): [2, 5], (1, 0): [3], (1, 1): [1, 4]}


def test_more_slots_than_warps_in_a_block_are_refused(written):
    text = header() + "".join(record(lanes(), warp=warp) for warp in (1, 8, 9))
    with pytest.raises(TraceError, match="launch 0: block 0 has 3 warps, but a block of the launch has 2"):
        read_nvbit(written(text))


def test_accesses_to_shared_memory_count_for_the_gap_of_the_next(written):
    shared = record(lanes(first=16), opcode="LDS.U.32")
    text = header() + shared + record(lanes()) + shared + record(lanes(), warp=1) + shared + record(lanes()) + shared
    found = rows_of(read_nvbit(written(text)))
    assert [row[4] for row in found[0, 0]] == [1, 2]
    assert [row[4] for row in found[0, 1]] == [0]


def test_a_block_without_global_accesses_is_held_and_silent(written):
    text = header() + record(lanes()) + record(lanes(), cta=(2, 0, 0), opcode="STS")
    trace = read_nvbit(written(text))
    assert list(trace.blocks) == [0, 2]
    assert rows_of(trace)[2, 0] == []


def test_an_asynchronous_copy_is_one_load(written):
    text = header() + record(lanes(first=64), opcode="LDGSTS.E.128") + record(lanes(first=2**40), opcode="LDGSTS.E.128")
    (row,) = rows_of(read_nvbit(written(text)))[0, 0]
    assert row[1:5] == (Op.LOAD, Space.GLOBAL, 16, 0)
    assert row[-1][0] == 2**40


def test_older_versions_record_launches_one_less_than_they_announce(written):
    text = header(1, "first") + record(lanes(4096), launch=0) + header(2, "second") + record(lanes(8192), launch=1)
    assert read_nvbit(written(text), kernel="first").columns.addresses[0] == 4096
    assert read_nvbit(written(text), kernel="2").columns.addresses[0] == 8192


def test_a_file_cut_out_of_a_longer_one_keeps_its_numbers(written):
    for number in (1, 7):
        assert len(read_nvbit(written(header(number) + record(lanes(), launch=number)))) == 1


@pytest.mark.parametrize(("kernel", "address"), [("3", 3), ("gemm*", 5), ("*tax*", 3), ("atax(int)", 3), ("gemm", 5)])
def test_a_launch_is_picked_by_number_or_pattern(written, kernel, address):
    text = header(3, "atax(int)") + header(5, "gemm(float*)")
    text += record(lanes(4096 * 3), launch=3) + record(lanes(4096 * 5), launch=5)
    trace = formats.read(written(text), kernel=kernel)
    assert trace.columns.addresses[0] == 4096 * address


def test_several_launches_are_listed(written):
    text = "".join(header(n, f"kernel{n}") for n in range(9)) + record(lanes())
    with pytest.raises(
        TraceError, match=r"holds several launches, the first are 0 \(kernel0\), 1 \(kernel1\); --kernel"
    ):
        read_nvbit(written(text))
    with pytest.raises(TraceError, match=r"several launches that 'ker\*' matches, the first are 0 \(kernel0\)"):
        read_nvbit(written(text), kernel="ker*")
    with pytest.raises(TraceError, match=r"no launch matches kernel='12'; there are 0 \(kernel0\), .*, \.\.\.$"):
        read_nvbit(written(text), kernel="12")


def test_many_launches_cost_little(written):
    text = "".join(header(n, "k") + record(lanes(4096 * n + 4096), launch=n) for n in range(3000))
    assert read_nvbit(written(text), kernel="2999").columns.addresses[0] == 4096 * 3000


def test_the_format_is_told_by_content_also_in_compressed_files(written):
    text = ("The program says hello\n" * 100 + header() + record(lanes())).encode()
    assert formats.recognise(written(text, "out.log")).name == "nvbit"
    assert len(formats.read(written(gzip.compress(text), "log"))) == 1


@pytest.mark.parametrize(
    ("opcode", "access"),
    [
        ("LDG.E", (Op.LOAD, Space.GLOBAL, 4)),
        ("LDG.E.LTC128B.64", (Op.LOAD, Space.GLOBAL, 8)),
        ("LDG.E.U8.CONSTANT", (Op.LOAD, Space.GLOBAL, 1)),
        ("LD.E.128", (Op.LOAD, Space.GLOBAL, 16)),
        ("STL.64", (Op.STORE, Space.LOCAL, 8)),
        ("ATOMG.E.ADD.F64.RN.STRONG.GPU", (Op.ATOMIC, Space.GLOBAL, 8)),
        ("RED.E.ADD.F16x2.RN", (Op.ATOMIC, Space.GLOBAL, 4)),
        ("LDS.128", None),
        ("ATOMS.CAS.64", None),
        ("CCTL.IVALL", None),
    ],
)
def test_an_opcode_says_what_it_does(opcode, access):
    found = access_of(opcode)
    assert (found if found is None else found[:3]) == access


# ---- Bad input


def test_of_two_runs_in_one_file_a_lenient_reader_takes_the_first(written):
    run = header() + record(lanes()) + record(lanes(8192), warp=1)
    with pytest.raises(TraceError, match="launch 0 was announced before"):
        read_nvbit(written(run + run))
    trace = read_nvbit(written(run + run), lenient=True)
    assert trace.skipped.lines == 1
    assert len(trace) == len(read_nvbit(written(run))) == 2


def test_an_instruction_that_is_too_wide_is_told_as_such(written):
    with pytest.raises(TraceError, match=r"LDG\.E\.ENL2\.256 accesses 32 bytes per lane; instructions of a trace"):
        read_nvbit(written(header() + record(lanes(step=32), opcode="LDG.E.ENL2.256")))


GOOD = header() + record(lanes())


def changed(old, new, text=GOOD):
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ("", "", "holds no launch"),
        ("just what a program says\n", "", "holds no launch"),
        (header(), ": launch 0", "no accesses"),
        (header() + record(lanes(), opcode="LDS"), ": launch 0", "no accesses"),
        (header() + record([0] * 32), ": launch 0", "no accesses"),
        (record(lanes()), ":1", "launch 0 has not been announced"),
        (GOOD + record(lanes(), launch=3), ":3", "launch 3 has not been announced"),
        (GOOD + header(), ":3", "launch 0 was announced before"),
        (header(block=(0, 1, 1)), ":1", "block x must be 1 to 1024"),
        (header(block=(1024, 2, 1)), ":1", "a block 1024 threads"),
        (header(grid=(0, 1, 1)), ":1", "grid x must be 1"),
        (header(grid=(2**31, 1, 1)), ":1", "grid x must be 1"),
        (header(grid=(1, 65536, 1)), ":1", "grid y must be 1"),
        (header(grid=(2**31 - 1, 65535, 65535)), ":1", "at most"),
        (header(nregs=256), ":1", "nregs must be"),
        (header(shmem=2**31), ":1", "shmem must be"),
        (header(nregs=-1), ":1", "expected 'LAUNCH"),
        (header(number=10**30), ":1", "expected 'LAUNCH"),
        (changed(" - grid size 4,2,1", ""), ":1", "expected 'LAUNCH"),
        (changed("CTA 0,0,0", "CTA 4,0,0"), ":2", "outside of the grid"),
        (changed("CTA 0,0,0", "CTA 0,2,0"), ":2", "outside of the grid"),
        (changed("CTA 0,0,0", "CTA 0,0,1"), ":2", "outside of the grid"),
        (changed("CTA 0,0,0", "CTA -1,0,0"), ":2", "expected 'CTX"),
        (changed("CTA 0,0,0", f"CTA {2**63},0,0"), ":2", "expected 'CTX"),
        (changed("warp 0", "warp 64"), ":2", "warp must be below 64"),
        (changed("warp 0", "warp x"), ":2", "expected 'CTX"),
        (changed("grid_launch_id 0", "grid_launch_id"), ":2", "expected 'CTX"),
        (changed("LDG.E.SYS", "FROB.E"), ":2", "FROB.E is not known"),
        (changed("LDG.E.SYS", "LDG.E.256"), ":2", "LDG.E.256 accesses 32 bytes per lane"),
        (changed("LDG.E.SYS", "L" * 65), ":2", "an opcode of more than 64 letters"),
        (changed("LDG.E.SYS", ""), ":2", "expected 'CTX"),
        (changed(" 0x0000000000001004", ""), ":2", "32 hexadecimal addresses"),
        (changed("0x0000000000001004", "0x0000000000001004 0x1"), ":2", "32 hexadecimal addresses"),
        (changed("0x0000000000001004", "0x10000000000001004"), ":2", "32 hexadecimal addresses"),
        (changed("0x0000000000001004", "0000000000001004"), ":2", "32 hexadecimal addresses"),
        (changed("0x0000000000001004", "0x00000000g0001004"), ":2", "32 hexadecimal addresses"),
        (changed("0x0000000000001004", "0x"), ":2", "32 hexadecimal addresses"),
        (changed("0x0000000000001004", "0x8000000000000000"), ":2", "addresses must be at most"),
        (GOOD[:-40] + "\n", ":2", "32 hexadecimal addresses"),
        (GOOD[:-40], ":2", "the last line is incomplete"),
        (GOOD + "MEMTRACE: \n", ":3", "expected 'CTX"),
        (GOOD + "\n\nMEMTRACE: CTX\n", ":5", "expected 'CTX"),
        (GOOD + "x" * 70000 + "\n", ":3", "longer than"),
        (GOOD.encode() + b"MEMTRACE: " + bytes(range(256)), ":3", "expected 'CTX"),
    ],
)
def test_a_bad_file_is_refused_with_one_line_that_says_where(written, text, where, problem):
    path = written(text)
    with pytest.raises(TraceError) as error:
        read_nvbit(path)
    message = str(error.value)
    assert message.startswith(f"{path}{where}: ")
    assert problem in message
    assert "\n" not in message
    assert len(message) < len(str(path)) + 300


def test_too_many_opcodes_are_refused(written):
    text = header() + "".join(record(lanes(), opcode=f"LDG.E.X{n}") for n in range(4097))
    with pytest.raises(TraceError, match=":4098: more than 4096 different opcodes"):
        read_nvbit(written(text))


@relaxed
@given(text=files(), data=st.data())
def test_lenient_reading_counts_bad_lines_and_keeps_the_rest(written, text, data):
    first, second, *lines = text.splitlines(keepends=True)
    bad = ["MEMTRACE: junk\n", record(lanes()[:31]), record(lanes(), opcode="FROB.E"), record(lanes(), launch=9)]
    chosen = data.draw(st.lists(st.sampled_from(bad), max_size=9))
    mixed = list(lines)
    for line in chosen:
        mixed.insert(data.draw(st.integers(0, len(mixed))), line)
    trace = read_nvbit(written("".join([first, second, *mixed])), kernel="0", lenient=True)
    clean = read_nvbit(written(text), kernel="0")
    assert trace.skipped.lines == len(chosen)
    assert trace.skipped.blocks == trace.launch.blocks - len(clean.blocks)
    assert list(trace.blocks) == list(range(trace.launch.blocks))
    assert without_pc(trace) == without_pc(clean)  # opcodes are counted on bad lines, too


def without_pc(trace):
    return {place: [row[1:] for row in rows] for place, rows in rows_of(trace).items() if rows}


def test_a_block_that_no_line_mentions_is_missing_unless_read_leniently(written, capsys):
    path = str(written(header() + record(lanes(), cta=(1, 0, 0))))
    assert main(["simulate", path]) == 2
    message = "block 0 is not in the trace of {}: it holds 1 of {} blocks; --lenient treats blocks without records"
    launch = read_nvbit(path).launch
    assert message.format(launch.kernel, launch.blocks) in capsys.readouterr().err
    assert main(["simulate", path, "--lenient"]) == 0
    assert f"blocks without records (assumed to access no memory): {launch.blocks - 1}\n" in capsys.readouterr().err
    trace = read_nvbit(path, lenient=True)
    assert (list(trace.blocks), trace.skipped.lines) == (list(range(launch.blocks)), 0)
    assert [block for block in trace.blocks if len(trace.block(block))] == [1]


def test_a_grid_that_would_not_fit_memory_is_not_filled_up(written):
    text = header(grid=(2**31 - 1, 1, 1)) + record(lanes(), cta=(1, 0, 0))
    trace = read_nvbit(written(text), lenient=True)
    assert (list(trace.blocks), trace.skipped.blocks) == ([1], 0)
    with pytest.raises(TraceError, match="blocks; the grid is too large to treat blocks without records") as error:
        trace.block(0)
    assert "--lenient" not in str(error.value)


def test_a_corpus_of_bad_files_is_refused():
    files = sorted(DATA.glob("nvbit-*"))
    assert len(files) >= 8
    for path in files:
        with pytest.raises(TraceError):
            read_nvbit(path)


def test_damaged_files_never_do_more_than_raise_a_trace_error(written):
    rng = random.Random(20)
    records = "".join(record(lanes(), cta=(n % 4, 0, 0), warp=n % 2) for n in range(6))
    text = (header() + header(1, "other") + records).encode()
    for _ in range(1000):
        path = written(damaged(text, rng))
        with contextlib.suppress(TraceError):
            trace = read_nvbit(path, kernel=rng.choice([None, "0", "*"]), lenient=rng.random() < 0.5)
            trace.columns.check()
            assert np.all(np.diff(trace.columns.warp_start) >= 0)


def test_an_option_that_a_format_has_no_use_for_is_refused(written):
    with pytest.raises(TraceError, match="the format 'nvbit' takes no option block"):
        formats.read(written(GOOD), block=(32, 1, 1))
    with pytest.raises(TraceError, match="the format 'trc' takes no option kernel"):
        formats.read(written("blocksize: 32 1 1\n0 0 0 4\n"), kernel="0")


def test_on_the_command_line_kernel_picks_the_launch(written, capsys):
    path = str(written(header(0, "atax(int)") + header(1, "gemm(int)") + record(lanes(), launch=1)))
    assert main(["info", path, "--kernel", "gemm"]) == 0
    assert capsys.readouterr().out.startswith("gemm(int), a trace")
    assert main(["info", path, "--block", "32,1,1"]) != 0
    assert "--block" in capsys.readouterr().err


def test_a_bad_record_is_told_with_its_block_and_the_address_that_is_wrong(written):
    for bad, told in (
        (record(lanes()[:31]), r"not 31, found 'CTA 0,0,0 - warp 0 - LDG"),
        (record(lanes())[:-3] + "zz \n", "not '0x000000000000107zz', found"),
        (record([*lanes()[:31], 1 << 63]), "not '0x8000000000000000', found 'CTA"),
        (record(lanes(), cta=(9, 0, 0)), "the CTA lies outside of the grid, found 'CTA 9,0,0 - warp 0"),
    ):
        with pytest.raises(TraceError, match=":2: .*" + told):
            read_nvbit(written(header() + bad))
