"""Pages of mapped traces are given back as readers go on, and no value depends on it."""

from __future__ import annotations

import copy
import mmap
import pickle
import sys
import tracemalloc
from itertools import count

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from rdmodel.trace import Columns, Trace, coalescing, locate_block
from rdmodel.trace import columns as columns_module
from rdmodel.trace.coalescing import Chunk, StoreRule, WarpStream, open_block
from rdmodel.trace.mapped_pages import WINDOW_BYTES, Pages
from rdmodel.trace.splitting import ADDRESSES_PER_PIECE, split_block
from rdmodel.trace.storage import load, save
from tests.support.examples import examples
from tests.support.random_traces import column_traces, write_out
from tests.support.raw_columns import changed, launch, make_raw

relaxed = examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc what is in memory")


def resident(path) -> int:
    """Return how many bytes of the files below `path` this process has in memory."""
    total, ours = 0, False
    with open("/proc/self/smaps", encoding="utf-8") as smaps:
        for row in smaps:
            if "-" in row.split()[0]:
                ours = str(path) in row
            elif ours and row.startswith("Rss:"):
                total += int(row.split()[1]) << 10
    return total


def long_trace(warps: int, instructions: int) -> Trace:
    """Return a trace of one block per warp, whose lanes lie anywhere in 16 MB."""
    n = warps * instructions
    addresses = np.random.default_rng(1).integers(0, 1 << 24, 32 * n)
    columns = Columns(
        warp_start=np.arange(0, n + 1, instructions),
        pc=np.zeros(n, np.int32),
        op=np.zeros(n, np.uint8),
        space=np.zeros(n, np.uint8),
        size=np.full(n, 4, np.uint8),
        gap=np.zeros(n, np.int32),
        needs=np.zeros(n, np.uint64),
        loop_exit=np.zeros(n, np.bool_),
        mask=np.full(n, 0xFFFFFFFF, np.uint32),
        address_start=np.arange(0, 32 * n + 1, 32),
        addresses=addresses,
    )
    return Trace(launch(blocks=warps, warps=1), columns)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a trace of four times the window."""
    path = tmp_path_factory.mktemp("paging") / "long"
    save(long_trace(8, 4 * WINDOW_BYTES // 8 // 32 // 8), path)
    return path


def drain(held_trace: Trace, each) -> None:
    chunk = Chunk()
    for block in held_trace.blocks:
        for stream in open_block(held_trace, block, 128, StoreRule.LINES):
            more = True
            while more:
                more = stream.fill(chunk)
                each()


@LINUX
def test_what_was_checked_is_no_longer_in_memory(folder):
    loaded = load(folder)
    assert resident(folder) == 0
    assert int(loaded.columns.addresses[0]) >= 0
    assert 0 < resident(folder) < WINDOW_BYTES


@LINUX
def test_readers_have_no_more_than_the_window_and_a_piece_in_memory(folder):
    loaded, seen, calls = load(folder, trusted=True), [], count()

    def look() -> None:
        if next(calls) % 16 == 0:
            seen.append(resident(folder))

    drain(loaded, look)
    for block in loaded.blocks:
        for _, columns in split_block(loaded, block):
            assert columns.addresses.max() < 1 << 24
            look()
    assert WINDOW_BYTES // 8 < max(seen) < WINDOW_BYTES + 16 * ADDRESSES_PER_PIECE


def test_a_check_takes_little_memory_whatever_the_length(folder):
    load(folder)
    tracemalloc.start()
    load(folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_a_block_is_read_where_it_lies(folder):
    loaded = load(folder, trusted=True)
    tracemalloc.start()
    drain(loaded, lambda: None)
    for block in loaded.blocks:
        for _ in split_block(loaded, block):
            pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


@relaxed
@given(trace=column_traces(), window=st.sampled_from([0, 1 << 20, 1 << 30]))
def test_values_are_the_same_with_any_window(tmp_path, trace, window):
    save(trace, tmp_path / "t", overwrite=True)
    loaded = load(tmp_path / "t")
    loaded.pages = Pages(loaded.pages._maps, window)
    assert write_out(loaded) == write_out(trace)
    for block in trace.blocks:
        for ours, theirs in zip(
            open_block(loaded, block, 128, StoreRule.MACHINE),
            open_block(trace, block, 128, StoreRule.MACHINE),
            strict=True,
        ):
            assert requests(ours) == requests(theirs)


def requests(stream: WarpStream) -> list[tuple]:
    chunk, found, more = Chunk(), [], True
    while more:
        more = stream.fill(chunk)
        found.append(
            (chunk.op[: chunk.n].tolist(), chunk.count[: chunk.n].tolist(), chunk.lines[: chunk.used].tolist())
        )
    return found


@relaxed
@given(trace=column_traces(), rows=st.sampled_from([1, 2, 3, 1000]), rule=st.sampled_from(StoreRule))
def test_chunks_are_the_same_however_few_instructions_are_gone_through_at_a_time(trace, rows, rule):
    wanted = [requests(s) for block in trace.blocks for s in open_block(trace, block, 128, rule)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coalescing, "ROWS_PER_PASS", rows)
        assert [requests(s) for block in trace.blocks for s in open_block(trace, block, 128, rule)] == wanted


@relaxed
@given(trace=column_traces())
def test_a_block_is_held_by_the_columns_of_the_trace(trace):
    for block in trace.blocks:
        columns, first = locate_block(trace, block)
        assert columns is trace.columns
        part = trace.block(block)
        lengths = np.diff(columns.warp_start[first : first + trace.launch.block_warps + 1])
        assert np.diff(part.warp_start).tolist() == lengths.tolist()


def test_a_copy_of_a_mapped_trace_is_independent_of_its_files(tmp_path):
    save(long_trace(2, 3), tmp_path / "t")
    loaded = load(tmp_path / "t")
    for other in (pickle.loads(pickle.dumps(loaded)), copy.deepcopy(loaded)):
        assert write_out(other) == write_out(loaded)
        other.pages.read(0, 1 << 30)


def test_a_system_that_cannot_give_back_pages_reads_on(folder, monkeypatch):
    monkeypatch.delattr(mmap, "MADV_DONTNEED", raising=False)
    loaded = load(folder)
    assert loaded.pages is not None
    loaded.pages.give_back()


@pytest.mark.parametrize("at_a_time", [1, 2, 3])
@pytest.mark.parametrize(
    ("name", "row", "value", "message"),
    [
        ("op", 4, 4, "warp 2, instruction 2: op 4 is not one of 0 to 3"),
        ("gap", 1, -1, "warp 0, instruction 1: gap -1 is negative"),
        ("address_start", 4, 1, "column address_start: must rise from 0 to 8"),
        ("warp_start", 2, 0, "column warp_start: must rise from 0 to 5"),
        ("addresses", 7, -3, "warp 2, instruction 2: address -3 is negative"),
    ],
)
def test_a_check_in_pieces_finds_a_fault_wherever_it_is(monkeypatch, at_a_time, name, row, value, message):
    monkeypatch.setattr(columns_module, "VALUES_PER_CHECK", at_a_time)
    with pytest.raises(TraceError) as error:
        changed(name, row, value).check()
    assert str(error.value) == message


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(1, 4))
def test_a_check_in_pieces_accepts_what_is_sound(lengths, at_a_time):
    row = {"op": 0, "space": 0, "size": 4, "gap": 0, "needs": 0, "loop_exit": 0, "mask": 3, "pc": 0}
    columns = Columns(**make_raw([[{**row, "addresses": [0, 4]}] * n for n in lengths]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_module, "VALUES_PER_CHECK", at_a_time)
        columns.check()


@pytest.mark.parametrize("blocks", [range(0, 9, 4), range(3, 4), [0, 1, 5], range(2, 8)])
def test_blocks_come_back_as_they_were_evenly_spaced_ones_as_a_range(tmp_path, blocks):
    raw = make_raw([[] for _ in blocks])
    save(Trace(launch(blocks=9, warps=1), Columns(**raw), blocks=blocks), tmp_path / "t")
    loaded = load(tmp_path / "t")
    assert list(loaded.blocks) == list(blocks)
    assert isinstance(loaded.blocks, range) == (list(blocks) != [0, 1, 5] and len(blocks) > 1)
    for block in range(9):
        if block in blocks:
            assert len(loaded.block(block)) == 0
        else:
            with pytest.raises(TraceError, match=f"^block {block} is not in the trace"):
                loaded.block(block)
