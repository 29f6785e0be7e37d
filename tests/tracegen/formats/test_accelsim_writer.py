"""Writing for Accel-Sim: what comes back, what is lost and said, and that lines keep to the format's grammar."""

import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import tracegen
from rdmodel.errors import TraceError
from rdmodel.trace import ALL_NEEDS, LAST_ADDRESS, Columns, Launch, Op, Space, Trace
from rdmodel.trace.lanes import last_warp_mask
from tests.support.examples import examples
from tests.support.plain_accelsim_reader import BLOCK, LINE, WARP, header_of, read_plainly, registers
from tests.support.random_traces import FIELDS, program_traces, write_out
from tracegen import formats
from tracegen.formats import accelsim_writer
from tracegen.formats.accelsim import read_accelsim
from tracegen.formats.accelsim_writer import write_accelsim

LOAD, STORE, ATOMIC, BARRIER = Op
FULL = 0xFFFFFFFF
relaxed = examples(80, suppress_health_check=[HealthCheck.function_scoped_fixture])


def make_trace(warps, *, block=(32, 1, 1), grid=None, blocks=None, **launch):
    """Return a trace of warps of rows, each a dict of columns that differ from a load of 4 bytes by lane 0."""
    rows = [row for warp in warps for row in warp]
    default = {"pc": 0x10, "op": LOAD, "space": 0, "size": 4, "gap": 0, "needs": 0, "mask": 1, "loop_exit": False}
    columns = {name: [row.get(name, value) for row in rows] for name, value in default.items()}
    addresses = [row.get("addresses", [4096 + 64 * i] * row.get("mask", 1).bit_count()) for i, row in enumerate(rows)]
    addresses = [[] if row.get("op") == BARRIER else lanes for row, lanes in zip(rows, addresses, strict=True)]
    width = -(-block[0] * block[1] * block[2] // 32)
    return Trace(
        Launch(kernel="made", grid=grid or (len(warps) // width, 1, 1), block=block, **launch),
        Columns(
            warp_start=np.cumsum([0, *map(len, warps)]),
            address_start=np.cumsum([0, *map(len, addresses)]),
            addresses=np.array([a for lanes in addresses for a in lanes], np.int64),
            **{name: np.array(values, np.uint64 if name == "needs" else None) for name, values in columns.items()},
        ),
        blocks,
    )


def loads_on_their_way(trace):
    """Return the needs of every instruction without what is no load on its way, by sets."""
    c, result = trace.columns, []
    for warp in range(c.warps):
        open_, ordinal = set(), 0
        for i in range(c.warp_start[warp], c.warp_start[warp + 1]):
            named = {ordinal - 1 - bit for bit in range(64) if int(c.needs[i]) >> bit & 1} & open_
            result.append(sum(1 << ordinal - 1 - o for o in named))
            open_ -= named
            if c.op[i] == BARRIER:
                continue
            if c.op[i] != STORE:
                open_.add(ordinal)
            ordinal += 1
            open_ = {o for o in open_ if ordinal - 1 - o < 64}
    return np.array(result, np.uint64)


@st.composite
def traces(draw, gaps=(0, 3)):
    """A trace that the format can hold, but that its gaps may have no room to name all needs."""
    block = draw(st.sampled_from([(32, 1, 1), (8, 8, 1), (70, 1, 1), (1, 1, 3)]))
    launch = Launch(
        kernel=draw(st.text(st.characters(categories=["L", "N", "P"], include_characters=" "), max_size=8)),
        grid=(draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 2))),
        block=block,
        registers=draw(st.integers(0, 255)),
        shared_memory=draw(st.integers(0, 48 << 10)),
    )
    blocks = sorted(draw(st.sets(st.integers(0, launch.blocks - 1), min_size=1)))
    r = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = r.integers(0, draw(st.integers(1, 80)), len(blocks) * launch.block_warps)
    lengths[0] += 1
    n = int(lengths.sum())
    op = r.choice([0, 0, 1, 2, 3], n)
    op[0] = LOAD
    space = np.where(
        op == ATOMIC, r.choice([0, 3], n), np.where(op == LOAD, r.integers(0, 4, n), r.choice([0, 1, 3], n))
    )
    mask = np.where(r.random(n) < 0.5, FULL, r.integers(1, 2**32, n)).astype(np.uint32)
    last = np.repeat(np.arange(len(lengths)) % launch.block_warps == launch.block_warps - 1, lengths)
    mask = np.where(last, np.maximum(mask & last_warp_mask(launch), 1), mask).astype(np.uint32)
    lanes = np.where(op == BARRIER, 0, np.bitwise_count(mask)).astype(np.int64)
    start = np.concatenate([[0], np.cumsum(lanes)])
    addresses = r.integers(0, draw(st.sampled_from([1 << 14, LAST_ADDRESS])), int(lanes.sum()))
    for i in np.flatnonzero(r.random(n) < 0.6):
        part = addresses[start[i] : start[i + 1]]
        part[:] = int(r.integers(1 << 20, 1 << 40)) + int(r.integers(-300, 300)) * np.arange(len(part))
    columns = Columns(
        warp_start=np.concatenate([[0], np.cumsum(lengths)]),
        pc=r.integers(-(2**31), 2**31, n),
        op=op,
        space=np.where(op == BARRIER, 0, space),
        size=np.where(op == BARRIER, 0, r.choice([1, 2, 4, 4, 8, 16], n)),
        gap=r.integers(gaps[0], gaps[1] + 1, n),
        needs=r.integers(0, 2**64, n, dtype=np.uint64) >> r.integers(0, 64, n, dtype=np.uint64),
        loop_exit=np.zeros(n),
        mask=mask,
        address_start=start,
        addresses=addresses,
    )
    trace = Trace(launch, columns, blocks)
    return Trace(launch, replace(columns, needs=loads_on_their_way(trace)), blocks)


def assert_same(one, other, *, but=()):
    for name in set(FIELDS) - set(but):
        np.testing.assert_array_equal(getattr(one.columns, name), getattr(other.columns, name), name)
    assert list(one.blocks) == list(other.blocks)


def losses(said):
    """Return {first word that is no number: number} of the sentences that begin with one."""
    return {text.split(" ", 1)[1][:24]: int(text.split()[0]) for text in said if text[0].isdigit()}


# ---- Laws


@relaxed
@given(trace=traces(gaps=(20, 25)))
def test_a_trace_that_the_format_can_hold_comes_back_exactly(tmp_path, trace):
    path = tmp_path / "copy.traceg"
    said = write_accelsim(trace, path, overwrite=True)
    assert [text for text in said if "blocks are written" not in text and "registers ran out" not in text] == []
    back = read_accelsim(path)
    if not any("registers ran out" in text for text in said):
        assert_same(back, trace)
    assert (back.launch.grid, back.launch.block) == (trace.launch.grid, trace.launch.block)
    assert (back.launch.registers, back.launch.shared_memory) == (trace.launch.registers, trace.launch.shared_memory)
    assert back.launch.kernel == accelsim_writer._printable(trace.launch.kernel)


@relaxed
@given(trace=traces())
def test_without_room_in_gaps_lines_are_added_and_counted(tmp_path, trace):
    said = losses(write_accelsim(trace, tmp_path / "copy.traceg", overwrite=True))
    back = read_accelsim(tmp_path / "copy.traceg")
    added = back.columns.gap - trace.columns.gap
    assert (added >= 0).all()
    assert added.sum() == said.get("instructions are added t", 0)
    assert_same(back, trace, but=("gap", "needs"))
    more = back.columns.needs & ~trace.columns.needs
    if "instructions wait for mo" not in said:
        assert_same(back, trace, but=("gap",))
    else:
        assert 0 < np.count_nonzero(more) == said["instructions wait for mo"]


@relaxed
@given(trace=traces(gaps=(0, 9)))
def test_what_came_back_once_is_written_the_same_again(tmp_path, trace):
    write_accelsim(trace, tmp_path / "one.traceg", overwrite=True)
    write_accelsim(read_accelsim(tmp_path / "one.traceg"), tmp_path / "two.traceg", overwrite=True)
    write_accelsim(read_accelsim(tmp_path / "two.traceg"), tmp_path / "three.traceg", overwrite=True)
    assert (tmp_path / "three.traceg").read_bytes() == (tmp_path / "two.traceg").read_bytes()
    assert_same(read_accelsim(tmp_path / "two.traceg"), read_accelsim(tmp_path / "one.traceg"))


@relaxed
@given(trace=traces())
def test_lines_keep_to_the_grammar_and_to_the_operands_that_accel_sim_takes(tmp_path, trace):
    path = tmp_path / "copy.traceg"
    write_accelsim(trace, path, overwrite=True)
    text = path.read_text()
    found = read_plainly(text)
    back = read_accelsim(path)
    for (block, warp), rows in found.items():
        c = back.block(block)
        lo, hi = c.warp_start[warp], c.warp_start[warp + 1]
        assert [row[5] for row in rows] == c.needs[lo:hi].tolist()
        assert [row[4] for row in rows] == c.gap[lo:hi].tolist()
        assert [a for row in rows for a in row[7]] == c.addresses[c.address_start[lo] : c.address_start[hi]].tolist()
    header = header_of(text)
    assert header["binary version"] == "70"
    for *_, body in BLOCK.findall(text):
        for _, _, lines in WARP.findall(body):
            lines = [LINE.fullmatch(line) for line in lines.strip().splitlines()]
            assert all(len(registers(line["targets"])) <= 1 and len(registers(line["sources"])) <= 4 for line in lines)
            assert [line["opcode"] for line in lines].index("EXIT") == len(lines) - 1


@relaxed
@given(trace=traces(), limit=st.integers(1, 100), text=st.integers(1, 3000))
def test_the_size_of_pieces_and_of_the_buffer_does_not_show_in_the_file(tmp_path, trace, limit, text):
    said = write_accelsim(trace, tmp_path / "whole.traceg", overwrite=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelsim_writer, "_PIECE_ADDRESSES", limit)
        patch.setattr(accelsim_writer, "_OUTPUT_BYTES", text)
        assert write_accelsim(trace, tmp_path / "cut.traceg", overwrite=True) == said
    assert (tmp_path / "cut.traceg").read_bytes() == (tmp_path / "whole.traceg").read_bytes()


@relaxed
@given(trace=program_traces())
def test_traces_of_loops_are_written_out(tmp_path, trace):
    expected = write_out(trace)
    write_accelsim(trace, tmp_path / "copy.traceg", overwrite=True)
    if not any(expected.values()):
        with pytest.raises(TraceError):
            read_accelsim(tmp_path / "copy.traceg")
        return
    back = write_out(read_accelsim(tmp_path / "copy.traceg"))
    assert back.keys() == expected.keys()
    for key, rows in expected.items():
        assert [(row[0], row[1], row[6], row[9]) for row in back[key]] == [(r[0], r[1], r[6], r[9]) for r in rows]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("atax.1", {"NX": 256, "NY": 16}), ("gemm", {"NI": 32, "NJ": 32, "NK": 40}), ("bicg.1", {"NX": 256, "NY": 16})],
)
def test_kernels_that_come_with_rdmodel_come_back_as_they_were(tmp_path, name, sizes):
    trace = tracegen.kernel(name, **sizes)
    said = losses(write_accelsim(trace, tmp_path / "kernelslist.g"))
    assert set(said) <= {"instructions are added t"}
    back = formats.read(tmp_path)
    assert_same(back, trace, but=("loop_exit", "gap"))
    assert (back.columns.gap - trace.columns.gap).sum() == said.get("instructions are added t", 0)


# ---- Scenarios


def test_a_store_names_the_loads_that_it_needs(tmp_path):
    rows = [{}, {}, {"op": STORE, "needs": 0b10, "mask": FULL}]
    write_accelsim(make_trace([rows]), tmp_path / "a.traceg")
    lines = (tmp_path / "a.traceg").read_text().split("insts")[1].splitlines()[1:5]
    assert lines[0] == "0010 00000001 1 R0 LDG.E 1 R252 4 2 0x1000 0"
    assert lines[1] == "0010 00000001 1 R1 LDG.E 1 R252 4 2 0x1040 0"
    assert lines[2] == "0010 ffffffff 0 STG.E 2 R0 R255 4 1 0x1080 0 0"
    assert lines[3] == "0000 ffffffff 0 EXIT 0 0 0"


def test_unknown_needs_become_waiting_for_all_loads_on_their_way(tmp_path):
    rows = [{"needs": ALL_NEEDS}, {"needs": ALL_NEEDS}, {"op": STORE, "needs": ALL_NEEDS}, {"needs": ALL_NEEDS}]
    said = write_accelsim(make_trace([rows]), tmp_path / "a.traceg")
    assert losses(said) == {"instructions need more t": 4}
    assert read_accelsim(tmp_path / "a.traceg").columns.needs.tolist() == [0, 1, 1, 0]


def test_many_needs_are_named_by_the_instructions_of_the_gap(tmp_path):
    rows = [*[{}] * 12, {"op": STORE, "needs": 0xFFF, "gap": 3}]
    assert write_accelsim(make_trace([rows]), tmp_path / "a.traceg") == ()
    back = read_accelsim(tmp_path / "a.traceg")
    assert (back.columns.needs[-1], back.columns.gap[-1]) == (0xFFF, 3)


def test_many_wide_loads_run_out_of_registers(tmp_path):
    rows = [{"size": 16}] * 64
    said = write_accelsim(make_trace([rows]), tmp_path / "a.traceg")
    assert losses(said) == {"instructions wait for mo": 2}
    needs = read_accelsim(tmp_path / "a.traceg").columns.needs.tolist()
    assert needs == [*[0] * 62, 1 << 61, 1 << 61]


def test_what_the_format_cannot_hold_is_said(tmp_path):
    rows = [
        {"size": 12},
        {"op": BARRIER, "mask": 0},
        {"op": ATOMIC, "space": Space.LOCAL},
        {"op": STORE, "space": Space.CONSTANT},
        {"gap": 2_000_000},
    ]
    trace = make_trace([rows], grid=(2, 1, 1), blocks=[1])
    trace.launch = replace(trace.launch, kernel="two\u00a0words")
    said = write_accelsim(trace, tmp_path / "a.traceg")
    assert [text.split(" ")[:2] for text in said] == [
        ["1", "barriers"],
        ["1", "atomics"],
        ["1", "stores"],
        ["1", "accesses"],
        ["1", "gaps"],
        ["the", "kernel's"],
        ["1", "of"],
    ]
    back = read_accelsim(tmp_path / "a.traceg")
    assert back.launch.kernel == "two_words"
    assert back.columns.gap.tolist() == [0, 0, 0, 0, 1_000_000]
    assert back.columns.size.tolist() == [12, 0, 4, 4, 4]
    assert back.columns.space.tolist() == [0, 0, Space.GLOBAL, Space.TEXTURE, 0]
    assert back.columns.mask[1] == FULL


def test_the_last_warp_exits_with_the_lanes_that_have_threads(tmp_path):
    write_accelsim(make_trace([[{}], []], block=(37, 1, 1)), tmp_path / "a.traceg")
    exits = [line for line in (tmp_path / "a.traceg").read_text().splitlines() if "EXIT" in line]
    assert exits == ["0000 ffffffff 0 EXIT 0 0 0", "0000 0000001f 0 EXIT 0 0 0"]


def test_a_list_is_written_with_its_kernel_beside_it(tmp_path):
    trace = make_trace([[{}]])
    (tmp_path / "folder").mkdir()
    assert formats.write(trace, tmp_path / "kernelslist.g") == ()
    assert formats.write(trace, tmp_path / "a.traceg") == ()
    assert write_accelsim(trace, tmp_path / "folder") == ()
    assert sorted(os.listdir(tmp_path)) == ["a.traceg", "folder", "kernel-1.traceg", "kernelslist.g"]
    assert sorted(os.listdir(tmp_path / "folder")) == ["kernel-1.traceg", "kernelslist.g"]
    assert (tmp_path / "kernelslist.g").read_text() == "kernel-1.traceg\n"
    for path in (tmp_path, tmp_path / "folder", tmp_path / "a.traceg"):
        assert_same(formats.read(path), trace)


def test_a_block_that_is_too_large_for_the_format_is_refused(tmp_path):
    with pytest.raises(TraceError, match="1056 threads"):
        write_accelsim(make_trace([[{}]] * 33, block=(1056, 1, 1)), tmp_path / "bad.traceg")


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(TraceError, match=r"gone/a\.traceg: cannot be written: No such file"):
        write_accelsim(make_trace([[{}]]), tmp_path / "gone" / "a.traceg")


def test_existing_files_are_replaced_only_on_request_and_only_when_complete(tmp_path, monkeypatch):
    old, new = make_trace([[{}]]), make_trace([[{}]] * 3)
    write_accelsim(old, tmp_path / "kernelslist.g")
    before = (tmp_path / "kernel-1.traceg").read_bytes()
    for path in ("kernelslist.g", "kernel-1.traceg"):
        with pytest.raises(TraceError, match=f"{path.split('.')[0]}.*exists already; overwrite"):
            write_accelsim(new, tmp_path / path)
    with monkeypatch.context() as patch:
        patch.setattr(accelsim_writer._WarpWriter, "write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_accelsim(new, tmp_path / "kernelslist.g", overwrite=True)
    assert (tmp_path / "kernel-1.traceg").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["kernel-1.traceg", "kernelslist.g"]
    write_accelsim(new, tmp_path / "kernelslist.g", overwrite=True)
    assert len(formats.read(tmp_path)) == 3


def interrupt(*_):
    raise KeyboardInterrupt
