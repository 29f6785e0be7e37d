"""Test the .trc reader against a few lines of plain Python: grouping, order, memory, and chosen files."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.trace import ALL_NEEDS, LAST_ADDRESS
from tests.support.trace_files import file_writer, relaxed
from tests.support.trc_traces import LOAD, STORE, accesses_of, assert_same_columns, files, rows_of
from tracegen.formats import compressed, thread_accesses
from tracegen.formats._trc import sort
from tracegen.formats.trc import read_trc


@pytest.fixture
def written(tmp_path):
    """Return a function that writes text or bytes to a file and returns its path."""
    return file_writer(tmp_path, "kernel.trc")


# ---- The oracle: a dict of lists


def parse_plainly(text):
    """Return the block shape and, for every thread, its accesses in order."""
    first, *lines = text.splitlines()
    threads = {}
    for line in lines:
        thread, direction, address, size = (int(word) for word in line.split())
        threads.setdefault(thread, []).append((direction, address, size))
    return tuple(int(word) for word in first.split()[1:]), threads


def group_plainly(lanes):
    """Return the instructions (direction, bytes, {lane: address}) of one warp, by popping from lists."""
    lanes = {lane: list(accesses) for lane, accesses in lanes.items()}
    rows = []
    while any(lanes.values()):
        leader = min(lane for lane, accesses in lanes.items() if accesses)
        direction = lanes[leader][0][0]
        taken = {}
        for lane in sorted(lanes):
            of_kind = [access for access in lanes[lane] if access[0] == direction]
            if of_kind:
                taken[lane] = of_kind[0]
                lanes[lane].remove(of_kind[0])
        widths = dict.fromkeys(access[2] for access in taken.values())
        rows += [(direction, size, {n: a[1] for n, a in taken.items() if a[2] == size}) for size in widths]
    return rows


# ---- Laws


@relaxed
@given(text=files())
def test_every_access_of_every_thread_arrives_once_in_order_in_its_lane(written, text):
    _, threads = parse_plainly(text)
    trace = read_trc(written(text))
    trace.columns.check()
    expected = {
        thread: tuple([(a, size) for d, a, size in accesses if d == kind] for kind in (LOAD, STORE))
        for thread, accesses in threads.items()
    }
    assert accesses_of(trace) == expected


@relaxed
@given(text=files())
def test_warps_are_grouped_by_the_rule(written, text):
    block, threads = parse_plainly(text)
    width = block[0] * block[1] * block[2]
    trace = read_trc(written(text))
    assert trace.launch.block == block
    assert list(trace.blocks) == sorted({thread // width for thread in threads})
    assert trace.launch.grid == (max(threads) // width + 1, 1, 1)
    for (number, warp), rows in rows_of(trace).items():
        first = number * width + warp * 32
        lanes = {n: threads[first + n] for n in range(min(32, width - warp * 32)) if first + n in threads}
        assert rows == group_plainly(lanes)


@relaxed
@given(text=files())
def test_the_first_lane_of_a_warp_keeps_its_whole_order(written, text):
    _, threads = parse_plainly(text)
    trace = read_trc(written(text))
    for (block, warp), rows in rows_of(trace).items():
        if rows:
            first = min(lane for _, _, lanes in rows for lane in lanes)
            seen = [(op, lanes[first], size) for op, size, lanes in rows if first in lanes]
            assert seen == threads[block * trace.launch.block_threads + warp * 32 + first]


@relaxed
@given(text=files(), chunk=st.integers(1, 80))
def test_where_the_file_is_cut_into_chunks_does_not_matter(written, text, chunk):
    whole = read_trc(written(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compressed, "CHUNK_BYTES", chunk)
        cut = read_trc(written(text))
    assert_same_columns(cut, whole)


@relaxed
@given(text=files(), chunk=st.integers(1, 80))
def test_line_ends_and_a_last_line_of_blanks_do_not_matter(written, text, chunk):
    plain = read_trc(written(text))
    odd = text.replace("\n", "  \r\n").replace(" ", " \t").rstrip() + "\n \t"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compressed, "CHUNK_BYTES", chunk)
        assert_same_columns(read_trc(written(odd.replace("\r\n", "\r\n \r\n"))), plain)


@relaxed
@given(text=files(), chunk=st.integers(1, 200), memory=st.sampled_from([0, 200, 1000, 4000]), rows=st.integers(1, 9))
def test_how_much_fits_into_memory_does_not_matter(written, text, chunk, memory, rows):
    whole = read_trc(written(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compressed, "CHUNK_BYTES", chunk)
        patch.setattr(thread_accesses, "_GROUPED_INSTRUCTIONS", rows)
        assert_same_columns(read_trc(written(text), memory=memory), whole)


def shuffled(n, threads, seed):
    """Return a file with n accesses of these threads in any order, every third one a store, of three widths."""
    rng = np.random.default_rng(seed)
    thread, address = rng.choice(threads, n), rng.integers(0, LAST_ADDRESS, n)
    store, size = rng.integers(0, 3, n) == 0, rng.choice([4, 4, 4, 8, 16], n)
    rows = zip(thread.tolist(), store.tolist(), address.tolist(), size.tolist(), strict=True)
    return "blocksize: 70 1 1\n" + "".join(f"{t} {d:d} {a} {s}\n" for t, d, a, s in rows)


@pytest.mark.parametrize("memory", [0, 1 << 10, 1 << 14, 1 << 17])
@pytest.mark.parametrize("threads", [[0], [5, 31], range(70), range(40, 1000), range(0, 70 * (2**31 - 1), 10**9)])
def test_runs_in_temporary_files_are_merged_to_what_fits_into_memory(written, monkeypatch, memory, threads):
    """Also warps that take more than there is, of which two lanes or one have all accesses."""
    path = written(shuffled(5000, list(threads), memory))
    whole = read_trc(path)
    monkeypatch.setattr(compressed, "CHUNK_BYTES", 1 << 10)
    monkeypatch.setattr(thread_accesses, "_GROUPED_INSTRUCTIONS", 100)
    cut = read_trc(path, memory=memory)
    assert isinstance(cut.columns.addresses.base, np.memmap) or memory == 1 << 17
    assert_same_columns(cut, whole)


@relaxed
@given(
    threads=st.lists(st.one_of(st.integers(0, 3), st.integers(0, 5000), st.integers(0, 2**41 - 1)), max_size=50),
    seed=st.integers(0, 9),
)
def test_accesses_are_sorted_by_thread_and_else_stay_in_order(threads, seed):
    kinds = np.random.default_rng(seed).integers(0, 256, len(threads)).tolist()
    pairs = [(thread << 8 | kind, i) for i, (thread, kind) in enumerate(zip(threads, kinds, strict=True))]
    accesses = np.array(pairs, np.int64).reshape(-1, 2)
    room = np.empty_like(accesses)
    found = room if sort(accesses, room) else accesses
    assert list(map(tuple, found.tolist())) == sorted(pairs, key=lambda pair: pair[0] >> 8)


GROWING = """
import resource, sys
import numpy as np
from tracegen.formats._trc import render
from tracegen.formats.trc import read_trc
path, n, order = sys.argv[1], int(sys.argv[2]), sys.argv[3]
part = 100_000
with open(path, "wb") as file:
    file.write(b"blocksize: 64 1 1\\n")
    for first in range(0, n, part):
        i = np.arange(first, first + part)
        thread = {"steps": i % 6400, "blocks": i * 640 // n, "lanes": i * 4 // n}[order]
        store = (i * 8 // n % 2).astype(np.uint8)
        out = np.empty(46 * part, np.uint8)
        file.write(out[: render(thread, store, i << 20, np.full(part, 4, np.uint8), out)])
trace = read_trc(path, memory=8 << 20)
assert len(trace.columns.addresses) == n
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.parametrize("order", ["steps", "blocks", "lanes"])
def test_memory_does_not_grow_with_the_file(tmp_path, order):
    """10 MB and 29 MB of accesses in 8 MB, all threads in turn, block after block, and one warp lane by lane."""
    command = [sys.executable, "-c", GROWING, str(tmp_path / "large.trc")]
    runs = [
        subprocess.run([*command, n, order], check=True, capture_output=True, text=True) for n in ("600000", "1800000")
    ]
    peak = [int(run.stdout) for run in runs]
    unit = 1 if sys.platform == "darwin" else 1024
    assert (peak[1] - peak[0]) * unit < 8 << 20


# ---- Scenarios


def test_loads_and_stores_pair_by_ordinal_and_follow_the_lowest_lane(written):
    text = "blocksize: 32 1 1\n0 0 100 4\n1 1 204 4\n0 1 200 4\n1 0 104 4\n1 0 304 4\n"
    trace = read_trc(written(text))
    assert rows_of(trace)[0, 0] == [
        (LOAD, 4, {0: 100, 1: 104}),
        (STORE, 4, {0: 200, 1: 204}),
        (LOAD, 4, {1: 304}),
    ]
    assert trace.columns.pc.tolist() == [0, 1, 2]
    assert (trace.columns.needs == ALL_NEEDS).all()
    assert trace.launch.kernel == "kernel"


def test_lanes_of_different_widths_become_one_instruction_per_width(written):
    text = "blocksize: 32 1 1\n0 0 0 4\n1 0 8 8\n2 0 16 4\n3 0 24 1\n"
    trace = read_trc(written(text))
    assert rows_of(trace)[0, 0] == [(LOAD, 4, {0: 0, 2: 16}), (LOAD, 8, {1: 8}), (LOAD, 1, {3: 24})]
    assert trace.columns.pc.tolist() == [0, 0, 0]


def test_a_block_that_is_not_a_multiple_of_a_warp_ends_with_a_partial_warp(written):
    trace = read_trc(written("blocksize: 40 1 1\n39 0 0 4\n40 0 4 4\n"))
    assert {key: rows for key, rows in rows_of(trace).items() if rows} == {
        (0, 1): [(LOAD, 4, {7: 0})],
        (1, 0): [(LOAD, 4, {0: 4})],
    }


def test_a_huge_thread_number_costs_no_memory(written):
    last = (2**31 - 1) * 32 - 1
    trace = read_trc(written(f"blocksize: 32 1 1\n0 0 0 4\n{last} 0 0 4\n"))
    assert list(trace.blocks) == [0, 2**31 - 2]
    assert trace.columns.warps == 2
    assert trace.launch.blocks == 2**31 - 1


def test_addresses_keep_all_their_bits(written):
    trace = read_trc(written(f"blocksize: 1 1 1\n0 0 {LAST_ADDRESS} 16\n"))
    assert trace.columns.addresses.tolist() == [LAST_ADDRESS]
