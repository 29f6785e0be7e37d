"""Test the refusal of lanes without threads and of warps without records, and lenient reading of the rest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.cli import main
from rdmodel.errors import TraceError
from rdmodel.trace import Trace
from tests.support import nvbit_texts, ppt_texts
from tests.support.accelsim_traces import A, B, header, one_warp, warp_text
from tests.support.trace_files import file_writer, relaxed
from tests.support.trc_traces import rows_of
from tracegen import formats
from tracegen.formats.accelsim import read_accelsim
from tracegen.formats.nvbit import read_nvbit
from tracegen.formats.ppt import read_ppt


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
    with pytest.raises(TraceError, match=r"a\.txt:20: lanes without a thread are active: a block has 16 threads"):
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


# ---- NVBit


def record(mask, warp=0, cta=0, first=4096, opcode="LDG.E.SYS"):
    addresses = [first + 4 * lane if mask >> lane & 1 else 0 for lane in range(32)]
    return nvbit_texts.record(addresses, cta=(cta, 0, 0), warp=warp, opcode=opcode)


def launch_text(threads, *records, grid=(1, 1, 1)):
    return nvbit_texts.header(grid=grid, block=(threads, 1, 1)) + "".join(records)


@pytest.mark.parametrize("slot", [0, 5, 63])
def test_a_full_mask_in_a_block_of_16_threads_is_refused_with_its_line(written, slot):
    text = launch_text(16, record(0xFFFF, slot), record(2**32 - 1, slot))
    with pytest.raises(TraceError, match=r"a\.txt:3: lanes without a thread are active: the block is smaller, found"):
        read_nvbit(written(text))
    trace = read_nvbit(written(text), lenient=True)
    assert lanes_of(trace) == {(0, 0): [low(16), low(16)]}
    assert (trace.skipped.lanes, trace.skipped.lines) == (16, 0)


def test_accesses_to_shared_memory_may_have_any_mask(written):
    text = launch_text(16, record(0xFFFF), record(2**32 - 1, opcode="LDS.U.32"))
    assert lanes_of(read_nvbit(written(text))) == {(0, 0): [low(16)]}


@pytest.mark.parametrize(
    ("slots", "last"), [((0, 1, 2), 2), ((1, 2, 0), 0), ((0, 2, 1), 1), ((9, 40, 12), 12), ((50, 7, 8), 8)]
)
def test_the_slot_whose_lanes_fit_is_the_last_warp(written, slots, last):
    """Blocks of 72 threads: the last of three warps has eight lanes. The program lists the slots of warps in order."""
    full, part = 2**32 - 1, 0xFF
    text = launch_text(72, *(record(part if slot == last else full, slot, first=4096 * slot + 4096) for slot in slots))
    found = {
        warp: [min(lanes.values()) // 4096 - 1 for _, _, lanes in rows]
        for (_, warp), rows in rows_of(read_nvbit(written(text))).items()
    }
    assert found == {0: [sorted({*slots} - {last})[0]], 1: [sorted({*slots} - {last})[1]], 2: [last]}


def test_a_warp_without_records_is_the_last_one_if_no_other_fits(written):
    full = 2**32 - 1
    trace = read_nvbit(written(launch_text(72, record(full, 0), record(full, 2), record(0xFFFF, 2))))
    assert lanes_of(trace) == {(0, 0): [low(32)], (0, 1): [low(32), low(16)], (0, 2): []}


@pytest.mark.parametrize("memory", [0, 1 << 20])
def test_a_block_with_full_masks_in_all_warps_is_refused_and_leniently_loses_lanes_of_the_last(written, memory):
    full, text = 2**32 - 1, ""
    for cta in (0, 1, 3):
        text += record(full if cta else 1, 7, cta)
        text += "".join(record(mask, 9, cta) for mask in (full, 0xFF00, 0x1FF))
    text = launch_text(40, grid=(4, 1, 1)) + text
    with pytest.raises(TraceError, match="launch 0: block 1: lanes without a thread are active: each of its 2"):
        read_nvbit(written(text), memory=memory)
    trace = read_nvbit(written(text), lenient=True, memory=memory)
    assert trace.skipped.lanes == 2 * (24 + 8 + 1)
    wide, narrow = [low(32)], [low(8), low(8)]
    assert lanes_of(trace) == {
        (0, 0): [low(32), list(range(8, 16)), low(9)],
        (0, 1): [[0]],
        **{(block, 0): wide for block in (1, 3)},
        **{(block, 1): narrow for block in (1, 3)},
        (2, 0): [],
        (2, 1): [],
    }
    assert trace.block(3).gap.tolist() == [0, 0, 1]


@relaxed
@given(
    threads=st.integers(1, 100),
    rows=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 3), st.sampled_from([1, 0xF, 0xF00, 2**31, 2**32 - 1])),
        min_size=1,
        max_size=12,
    ),
)
def test_no_lane_without_a_thread_is_left_and_no_other_lane_is_lost(written, threads, rows):
    warps = -(-threads // 32)
    rows = [(0, 0, 1), *((cta, warp % warps, mask) for cta, warp, mask in rows)]
    text = launch_text(threads, *(record(mask, warp, cta) for cta, warp, mask in rows), grid=(2, 1, 1))
    trace, other = (read_nvbit(written(text), lenient=True, memory=memory) for memory in (0, 1 << 20))
    Trace(trace.launch, trace.columns, trace.blocks)  # checks lanes
    for name in type(trace.columns).__dataclass_fields__:
        np.testing.assert_array_equal(getattr(trace.columns, name), getattr(other.columns, name), name)
    assert len(trace.columns.addresses) + trace.skipped.lanes == sum(mask.bit_count() for _, _, mask in rows)
    room = 0xFFFFFFFF >> (-threads % 32)
    by_block = [[{m & ~room for c, w, m in rows if (c, w) == (cta, warp)} for warp in range(warps)] for cta in (0, 1)]
    assert (trace.skipped.lanes > 0) == any(all(wide and any(wide) for wide in block) for block in by_block)
    if trace.skipped.lanes:
        with pytest.raises(TraceError, match="lanes without a thread are active"):
            read_nvbit(written(text))
    else:
        assert lanes_of(read_nvbit(written(text))).items() <= lanes_of(trace).items()


# ---- PPT-GPU


def test_more_addresses_than_the_threads_of_a_block_are_refused_with_their_line(tmp_path):
    path = file_writer(tmp_path, "kernel_1_block_0.mem")("\n=====\n" + ppt_texts.record(addresses=range(1, 18)))
    with pytest.raises(TraceError, match=r"block_0\.mem:3: more addresses than a block has threads, found 'LDG"):
        read_ppt(path, block=(4, 4, 1))
    trace = read_ppt(path, block=(4, 4, 1), lenient=True)
    assert (lanes_of(trace), trace.skipped.lanes) == ({(0, 0): [low(16)]}, 1)


def test_a_record_that_does_not_fit_the_last_warp_goes_to_the_next_one(tmp_path):
    counts = (32, 8, 32, 8, 8, 32, 32, 32)
    records = "".join("\n=====\n" + ppt_texts.record(addresses=range(1, 1 + count)) for count in counts)
    trace = read_ppt(file_writer(tmp_path, "kernel_1_block_0.mem")(records), block=(40, 1, 1))
    assert lanes_of(trace) == {(0, 0): [low(n) for n in (32, 32, 8, 32, 32, 32)], (0, 1): [low(8), low(8)]}


# ---- Notices


def test_the_command_line_tells_what_was_left_out(written, capsys):
    text = header(block="(48,1,1)") + block_text(warp_text([A], 1))
    assert main(["info", str(written(text, "a.traceg")), "--lenient"]) == 0
    said = capsys.readouterr().err
    assert "rdmodel: warps without records (assumed to access no memory): 1\n" in said
    assert "rdmodel: lane accesses of threads that no block has, left out: 16\n" in said
    assert main(["info", str(written(text, "a.traceg"))]) == 2
    assert "lanes without a thread are active" in capsys.readouterr().err
