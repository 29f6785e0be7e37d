"""Test the refusal of lanes without threads and of warps without records, and lenient reading of the rest."""

import pytest

from rdmodel.errors import TraceError
from tests.support.accelsim_traces import A, B, header, one_warp, warp_text
from tests.support.trace_files import file_writer
from tests.support.trc_traces import rows_of
from tracegen import formats
from tracegen.formats.accelsim import read_accelsim


@pytest.fixture
def written(tmp_path):
    """Return a function that writes text to a file and returns its path."""
    return file_writer(tmp_path, "a.txt")


def lanes_of(trace):
    """Return {(block, warp): active lanes of each instruction}."""
    return {place: [sorted(lanes) for _, _, lanes in rows] for place, rows in rows_of(trace).items()}


def low(count):
    return list(range(count))


def block_text(*warps, place="0,0,0"):
    return f"#BEGIN_TB\n\nthread block = {place}\n\n" + "\n".join(warps) + "\n#END_TB\n"


# ---- .traceg


@pytest.mark.parametrize(
    "line",
    [
        "0010 ffffffff 1 R4 LDG.E 1 R2 4 1 0x1000 4",
        "0010 00010000 1 R4 LDG.E 1 R2 4 0 0x1000",
        "0010 80000001 0 STG.E 2 R2 R4 4 2 0x1000 4",
        "0010 0001ffff 1 R4 LD.E 1 R2 4 1 0x1000 4",
    ],
)
def test_an_accel_sim_line_with_more_lanes_than_threads_is_refused(written, line):
    path = written(one_warp("0000 00000001 1 R2 LDG.E 1 R3 4 1 0x100 4", line, block="(16,1,1)"))
    with pytest.raises(TraceError, match=r"a\.txt:20: the last warp has active lanes of threads that a block of 16"):
        read_accelsim(path)


def test_leniently_only_the_lanes_without_threads_are_left_out(written):
    text = one_warp(A, "0020 f0000001 1 R5 LDG.E 1 R2 4 0 0x1 0x2 0x3 0x4 0x5", block="(4,4,1)")
    trace = read_accelsim(written(text), lenient=True)
    assert rows_of(trace)[0, 0] == [(0, 4, {lane: 0x1000 + 4 * lane for lane in range(16)}), (0, 4, {0: 1})]
    assert (trace.skipped.lanes, trace.skipped.lines) == (16 + 4, 0)


def test_an_instruction_that_loses_all_its_lanes_counts_into_the_gap(written):
    text = one_warp("0020 00ff0000 1 R5 LDG.E 1 R2 4 1 0x1000 4", A, block="(16,1,1)")
    trace = read_accelsim(written(text), lenient=True)
    assert trace.columns.gap.tolist() == [1]


def test_other_warps_and_instructions_without_accesses_may_have_a_full_mask(written):
    other = ["0000 ffffffff 0 EXIT 0 0", "0008 ffffffff 0 BAR.SYNC 0 0"]
    text = header(block="(40,1,1)") + block_text(warp_text([A]), warp_text([*other, A.replace("ffffffff", "ff")], 1))
    assert lanes_of(read_accelsim(written(text))) == {(0, 0): [low(32)], (0, 1): [[], low(8)]}


@pytest.mark.parametrize(("warps", "missing", "first"), [((0,), 2, 1), ((1, 2), 1, 0), ((2, 0), 1, 1), ((), 3, 0)])
def test_a_block_without_one_of_its_warps_is_refused_and_leniently_told(written, warps, missing, first):
    text = header(block="(96,1,1)", grid="(2,1,1)") + block_text(*(warp_text([A], warp) for warp in range(3)))
    text += block_text(*(warp_text([B], warp) for warp in warps), place="1,0,0")
    message = rf"a\.txt:\d+: {missing} of the block's 3 warps are missing, warp {first} is the first; --lenient treats"
    with pytest.raises(TraceError, match=message):
        read_accelsim(written(text))
    trace = read_accelsim(written(text), lenient=True)
    assert (trace.skipped.warps, trace.skipped.lines, trace.skipped.blocks) == (missing, 0, 0)
    assert {warp for block, warp in lanes_of(trace) if block and lanes_of(trace)[block, warp]} == set(warps)


def test_a_warp_with_no_instructions_is_not_missing(written):
    text = header(block="(64,1,1)") + block_text(warp_text([A]), warp_text([], 1))
    assert read_accelsim(written(text)).skipped == formats.Skipped()


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("-grid dim = (2,1,1)", "grid dim"),
        ("-block dim = (64,1,1)", "block dim"),
        ("-kernel name = other", "kernel name"),
        ("-kernel id = 2", "kernel id"),
        ("-nregs = 8", "nregs"),
        ("-shmem = 0", "shmem"),
        ("-shmem base_addr = 0x0", "shmem base_addr"),
        ("-local mem base_addr = 0x1", "local mem base_addr"),
        ("-accelsim tracer version = 5", "accelsim tracer version"),
    ],
)
def test_two_header_lines_that_contradict_each_other_are_refused(written, line, key):
    text = one_warp(A, more=f"-enable lineinfo = 0\n{line}")
    with pytest.raises(TraceError, match=rf"a\.txt:11: {key} is given twice: '.*' and then '"):
        read_accelsim(written(text))
    with pytest.raises(TraceError, match=f"{key} is given twice"):
        formats.launches(written(text))
    trace = read_accelsim(written(text), lenient=True)
    assert trace.launch == read_accelsim(written(one_warp(A))).launch
    assert trace.skipped.lines == 1


def test_a_header_line_may_be_repeated(written):
    assert read_accelsim(written(one_warp(A, more="-grid dim = (1, 1, 1)\n-nregs = 07"))).skipped.lines == 0
