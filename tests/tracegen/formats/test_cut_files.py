"""Test files that end within a line: no part of a number may be taken for the whole number."""

import pytest

from rdmodel.errors import TraceError
from tests.support import accelsim_traces, nvbit_texts, ppt_texts
from tests.support.trace_files import file_writer
from tests.support.trc_traces import rows_of
from tracegen import formats

FIRST, LAST = [0x7F12_3456_7000 + 4 * lane for lane in range(32)], [0x7F12_3456_157C] * 32
TRC = "blocksize: 32 1 1\n0 0 4096 4\n1 0 8192 16\n"
NVBIT = nvbit_texts.header(grid=(1, 1, 1), block=(32, 1, 1)) + "".join(map(nvbit_texts.record, (FIRST, LAST)))
PPT = "".join("\n=====\n" + ppt_texts.record(addresses=addresses) for addresses in (FIRST, LAST))
TRACEG = accelsim_traces.one_warp(accelsim_traces.A, accelsim_traces.B)
FILES = {"a.trc": TRC, "a.txt": NVBIT, "kernel_1_block_0.mem": PPT, "a.traceg": TRACEG}


@pytest.fixture
def written(tmp_path):
    """Return a function that writes text to a file and returns its path."""
    return file_writer(tmp_path, "cut.txt")


def read(path, **options):
    ppt = path.suffix == ".mem"
    return formats.read(path, block=(32, 1, 1) if ppt else None, **options)


def accesses(trace):
    """Return the (size, lane, address) of all accesses in order."""
    ((_, rows),) = rows_of(trace).items()
    return [(size, lane, address) for _, size, lanes in rows for lane, address in lanes.items()]


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_at_any_byte_is_refused_or_gives_accesses_of_the_whole_file(written, name):
    whole = accesses(read(written(FILES[name], name)))
    refused = 0
    for end in range(len(FILES[name])):
        try:
            found = accesses(read(written(FILES[name][:end], name)))
        except TraceError:
            refused += 1
        else:
            assert found == whole[: len(found)], end
    assert refused > len(FILES[name]) // 3


@pytest.mark.parametrize(
    ("name", "cut", "line"),
    [
        ("a.trc", TRC.removesuffix("6\n"), 3),
        ("a.trc", TRC.removesuffix("\n"), 3),
        ("a.txt", NVBIT.removesuffix("7c \n"), 3),
        ("a.txt", NVBIT.removesuffix("157c \n") + "000", 3),
        ("a.txt", NVBIT + "MEM", 4),
        ("a.txt", NVBIT + "output of the program, then MEMTR", 4),
        ("kernel_1_block_0.mem", PPT.removesuffix("7c "), 5),
        ("a.traceg", TRACEG.removesuffix("\n"), 22),
    ],
)
def test_an_incomplete_last_line_is_refused_and_left_out_leniently(written, name, cut, line):
    path = written(cut, name)
    message = rf"{name}:{line}: the last line is incomplete, as if the file were cut off, found .*; --lenient leaves it"
    with pytest.raises(TraceError, match=message):
        read(path)
    trace = read(path, lenient=True)
    said = trace.skipped.examples[0]
    assert f"{name}:{line}: the last line is incomplete" in said
    assert "--lenient" not in said
    assert trace.skipped.lines == 1 + (name == "a.traceg")  # without its last line, the block has no end
    complete = "".join(cut.splitlines(keepends=True)[:-1])
    if name != "a.traceg":
        assert accesses(trace) == accesses(read(written(complete, name)))


@pytest.mark.parametrize("end", ["", "  ", "\t\r"])
@pytest.mark.parametrize("name", ["a.trc", "a.txt", "a.traceg"])
def test_blanks_after_the_last_newline_change_nothing(written, name, end):
    assert accesses(read(written(FILES[name] + end, name))) == accesses(read(written(FILES[name], name)))


def test_the_last_record_of_ppt_gpu_ends_with_a_blank_and_no_newline(written):
    assert len(accesses(read(written(PPT, "kernel_1_block_0.mem")))) == 64


@pytest.mark.parametrize("output", ["Result = PASS", "SUM", "100 %"])
def test_output_of_the_traced_program_may_end_without_a_newline(written, output):
    assert len(accesses(read(written(NVBIT + output, "a.txt")))) == 64


def test_an_announcement_that_is_cut_is_not_listed(written):
    cut = nvbit_texts.header(shmem=4096).replace(" - cuda stream id 0\n", "")[:-2]
    with pytest.raises(TraceError, match=r"cut\.txt:2: the last line is incomplete"):
        formats.launches(written(nvbit_texts.header(number=1) + cut), format="nvbit")


def test_a_header_that_is_cut_in_a_number_is_not_listed_with_a_part_of_it(written):
    cut = accelsim_traces.header().partition("-nregs")[0] + "-nregs = 12"
    (listed,) = formats.launches(written(cut), format="accelsim")
    assert listed.launch.registers == 0
