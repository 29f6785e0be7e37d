"""The .trc reader against a few lines of plain Python, round trips, and every kind of bad file."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from rdmodel.trace import ALL_NEEDS, LAST_ADDRESS, Columns, Launch, Op, Space, Trace, storage
from tracegen import formats
from tracegen.formats import compressed, trc
from tracegen.formats._trc import sort
from tracegen.formats.trc import read_trc, write_trc

LOAD, STORE = 0, 1
BLOCKS = [(32, 1, 1), (33, 1, 1), (1, 1, 1), (8, 8, 1), (5, 3, 4), (70, 1, 1)]
relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100)


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


def rows_of(trace):
    """Return {(block, warp): [(op, size, {lane: address})]} for every warp that the trace holds."""
    result = {}
    for block in trace.blocks:
        columns = trace.block(block)
        for warp in range(columns.warps):
            rows = result[block, warp] = []
            for i in range(columns.warp_start[warp], columns.warp_start[warp + 1]):
                mask = 0 if columns.op[i] == Op.BARRIER else columns.mask[i]
                active = [lane for lane in range(32) if mask >> lane & 1]
                held = columns.addresses[columns.address_start[i] : columns.address_start[i + 1]]
                rows.append((int(columns.op[i]), int(columns.size[i]), dict(zip(active, held.tolist(), strict=True))))
    return result


def accesses_of(trace):
    """Return {thread: ([loads], [stores])}, each an (address, bytes), in the order of the trace."""
    width = trace.launch.block_threads
    threads = {}
    for (block, warp), rows in rows_of(trace).items():
        for op, size, lanes in rows:
            for lane, address in lanes.items():
                thread = block * width + warp * 32 + lane
                threads.setdefault(thread, ([], []))[op != Op.LOAD].append((address, size))
    return threads


@st.composite
def files(draw):
    """A file of interleaved, divergent threads; some threads and some blocks are missing."""
    block = draw(st.sampled_from(BLOCKS))
    threads = block[0] * block[1] * block[2]
    thread = st.one_of(st.integers(0, 4 * threads - 1), st.integers(0, min(3, threads - 1)))
    address = st.one_of(st.integers(0, 4096), st.integers(0, LAST_ADDRESS))
    line = st.tuples(thread, st.integers(0, 1), address, st.sampled_from([1, 2, 4, 4, 4, 8, 16]))
    lines = draw(st.lists(line, max_size=60))
    lines.insert(draw(st.integers(0, len(lines))), (draw(thread), LOAD, 128, 4))
    body = "".join(" ".join(map(str, fields)) + "\n" for fields in lines)
    return f"blocksize: {block[0]} {block[1]} {block[2]}\n{body}"


@pytest.fixture
def written(tmp_path):
    """Return a function that writes text or bytes to a .trc file and returns its path."""

    def write(text, name="kernel.trc"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


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
def test_line_ends_blanks_and_a_missing_last_newline_do_not_matter(written, text, chunk):
    plain = read_trc(written(text))
    odd = text.replace("\n", "  \r\n").replace(" ", " \t").rstrip()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compressed, "CHUNK_BYTES", chunk)
        assert_same_columns(read_trc(written(odd.replace("\r\n", "\r\n \r\n"))), plain)


@relaxed
@given(text=files(), chunk=st.integers(1, 200), memory=st.sampled_from([0, 200, 1000, 4000]), rows=st.integers(1, 9))
def test_how_much_fits_into_memory_does_not_matter(written, text, chunk, memory, rows):
    whole = read_trc(written(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compressed, "CHUNK_BYTES", chunk)
        patch.setattr(trc, "_GROUPED_INSTRUCTIONS", rows)
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
    monkeypatch.setattr(trc, "_GROUPED_INSTRUCTIONS", 100)
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
    """10 MB and 48 MB of accesses in 8 MB, all threads in turn, block after block, and one warp lane by lane."""
    command = [sys.executable, "-c", GROWING, str(tmp_path / "large.trc")]
    runs = [
        subprocess.run([*command, n, order], check=True, capture_output=True, text=True) for n in ("600000", "3000000")
    ]
    peak = [int(run.stdout) for run in runs]
    unit = 1 if sys.platform == "darwin" else 1024
    assert (peak[1] - peak[0]) * unit < 8 << 20


def assert_same_columns(one, other, *, only=None):
    names = only or Columns.__dataclass_fields__
    for name in names:
        np.testing.assert_array_equal(getattr(one.columns, name), getattr(other.columns, name), name)
    assert list(one.blocks) == list(other.blocks)


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


# ---- Bad input

GOOD = "blocksize: 32 1 1\n0 0 0 4\n"


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ("", "", "empty"),
        ("\n", ":1", "blocksize: X Y Z"),
        ("0 0 0 4\n", ":1", "blocksize: X Y Z"),
        ("blocksize: 32 1\n0 0 0 4\n", ":1", "blocksize: X Y Z"),
        ("blocksize: 32 1 1 1\n0 0 0 4\n", ":1", "blocksize: X Y Z"),
        ("blocksize: 32 -1 1\n0 0 0 4\n", ":1", "blocksize: X Y Z"),
        ("blocksize: 0 1 1\n0 0 0 4\n", ":1", "1 to 1024 threads"),
        ("blocksize: 1025 1 1\n0 0 0 4\n", ":1", "1 to 1024 threads"),
        ("blocksize: " + "9" * 300 + " 1 1\n", ":1", "blocksize: X Y Z"),
        ("blocksize: 32 1 1\n", "", "no accesses"),
        ("blocksize: 32 1 1\n0 1 0 4\n", "", "without loads"),
        (GOOD + "x 0 0 4\n", ":3", "four decimal numbers"),
        (GOOD + "0 0 0x80 4\n", ":3", "four decimal numbers"),
        (GOOD + "0 0 1.5 4\n", ":3", "four decimal numbers"),
        (GOOD + "-1 0 0 4\n", ":3", "four decimal numbers"),
        (GOOD + "0 0 -128 4\n", ":3", "four decimal numbers"),
        (GOOD + "+1 0 0 4\n", ":3", "four decimal numbers"),
        (GOOD + "0 0 0\n", ":3", "four decimal numbers"),
        (GOOD + "0 0 0 4 5\n", ":3", "four decimal numbers"),
        (GOOD + "0 0 0 4 # why\n", ":3", "four decimal numbers"),
        (GOOD + "# a comment\n", ":3", "four decimal numbers"),
        (GOOD + "0 0 12", ":3", "four decimal numbers"),
        (GOOD + "\n\n0 0\n", ":5", "four decimal numbers"),
        (GOOD + "0 2 0 4\n", ":3", "direction"),
        (GOOD + "0 0 0 0\n", ":3", "bytes must be 1 to 16"),
        (GOOD + "0 0 0 17\n", ":3", "bytes must be 1 to 16"),
        (GOOD + f"0 0 0 {2**64 + 4}\n", ":3", "bytes must be 1 to 16"),
        (GOOD + f"0 0 {LAST_ADDRESS + 1} 4\n", ":3", "address must be at most"),
        (GOOD + f"0 0 {2**64} 4\n", ":3", "address must be at most"),
        (GOOD + f"0 0 {10**40} 4\n", ":3", "address must be at most"),
        (GOOD + f"{(2**31 - 1) * 32} 0 0 4\n", ":3", "largest grid"),
        (GOOD + f"{2**64} 0 0 4\n", ":3", "largest grid"),
        (GOOD + "0 0 0 " + "0" * 300 + "4\n", ":3", "longer than"),
        (GOOD.encode() + bytes(range(256)), ":3", "four decimal numbers"),
        (b"\x7fELF" + bytes(5000), ":1", "blocksize: X Y Z"),
    ],
)
def test_a_bad_file_is_refused_with_one_line_that_says_where(written, text, where, problem):
    path = written(text)
    with pytest.raises(TraceError) as error:
        read_trc(path)
    message = str(error.value)
    assert message.startswith(f"{path}{where}: ")
    assert problem in message
    assert "\n" not in message
    assert len(message) < len(str(path)) + 200


def test_an_endless_line_neither_fills_memory_nor_shifts_the_line_numbers(written, monkeypatch):
    monkeypatch.setattr(compressed, "CHUNK_BYTES", 64)
    text = GOOD + "0 0 1 " + "0" * 5000 + "4\n0 0 4 4\n0 9 0 4\n"
    with pytest.raises(TraceError, match=":3: longer than"):
        read_trc(written(text))
    trace = read_trc(written(text), lenient=True)
    assert trace.columns.addresses.tolist() == [0, 4]
    assert [message.split(": ")[0][-2:] for message in trace.skipped.examples] == [":3", ":5"]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(TraceError, match=r"gone\.trc: cannot be read: No such file"):
        read_trc(tmp_path / "gone.trc")


@relaxed
@given(junk=st.binary(max_size=300))
def test_junk_never_does_more_than_raise_a_trace_error(written, junk):
    for text in (junk, GOOD.encode() + junk):
        for lenient in (False, True):
            with contextlib.suppress(TraceError):
                read_trc(written(text), lenient=lenient).columns.check()


@relaxed
@given(text=files(), data=st.data())
def test_lenient_reading_counts_bad_lines_and_keeps_the_rest(written, text, data):
    first, *lines = text.splitlines()
    bad = data.draw(st.lists(st.sampled_from(["junk", "1 2 3 4", "0 0 0 99", "0 0 0", "-1 0 0 4"]), max_size=9))
    mixed = list(lines)
    for line in bad:
        mixed.insert(data.draw(st.integers(0, len(mixed))), line)
    trace = read_trc(written("\n".join([first, *mixed])), lenient=True)
    assert trace.skipped.lines == len(bad)
    assert len(trace.skipped.examples) == min(len(bad), 5)
    clean = read_trc(written(text))
    for name in set(Columns.__dataclass_fields__) - {"warp_start"}:
        np.testing.assert_array_equal(getattr(trace.columns, name), getattr(clean.columns, name), name)
    assert list(trace.blocks) == list(range(trace.launch.blocks))
    assert trace.skipped.blocks == trace.launch.blocks - len(clean.blocks)
    for block in clean.blocks:
        np.testing.assert_array_equal(trace.block(block).warp_start, clean.block(block).warp_start)


def test_lenient_reading_still_needs_a_header_and_an_access(written):
    with pytest.raises(TraceError, match="blocksize: X Y Z"):
        read_trc(written("block size 32\n0 0 0 4\n"), lenient=True)
    with pytest.raises(TraceError, match="no accesses"):
        read_trc(written("blocksize: 32 1 1\nx\n"), lenient=True)


# ---- Writing


def make_trace(rows_per_warp, *, block=(64, 1, 1), grid=None, blocks=None):
    """Return a trace of rows (op, size, mask) per warp, with addresses that tell all lanes apart."""
    rows = [row for warp in rows_per_warp for row in warp]
    ops, sizes, masks = (np.array(column) for column in zip(*rows, strict=True))
    lanes = np.where(ops == Op.BARRIER, 0, np.bitwise_count(masks.astype(np.uint32))).astype(np.int64)
    n, used = len(rows), int(lanes.sum())
    columns = Columns(
        warp_start=np.cumsum([0, *map(len, rows_per_warp)]),
        pc=np.arange(n),
        op=ops,
        space=np.full(n, Space.GLOBAL),
        size=sizes,
        gap=np.zeros(n),
        needs=np.full(n, ALL_NEEDS, np.uint64),
        loop_exit=np.zeros(n),
        mask=masks,
        address_start=np.concatenate([[0], np.cumsum(lanes)]),
        addresses=np.arange(used) * 16 + (1 << 40),
    )
    width = -(-block[0] * block[1] * block[2] // 32)
    launch = Launch(kernel="made", grid=grid or (len(rows_per_warp) // width, 1, 1), block=block)
    return Trace(launch, columns, blocks)


@st.composite
def nested_traces(draw):
    """A trace in which the lanes of a warp only ever drop out: what the format holds exactly."""

    def warp():
        mask, rows = (1 << 32) - 1, []
        for _ in range(draw(st.integers(1, 5))):
            mask = mask & draw(st.integers(0, (1 << 32) - 1)) or mask
            rows.append((draw(st.integers(0, 1)), draw(st.sampled_from([1, 2, 4, 8, 16])), mask))
        return rows

    warps = [warp() for _ in range(2 * draw(st.integers(1, 4)))]
    warps[0][0] = (LOAD, *warps[0][0][1:])
    return make_trace(warps)


HELD = ("warp_start", "op", "space", "size", "mask", "address_start", "addresses")


@relaxed
@given(trace=nested_traces())
def test_a_trace_that_the_format_can_hold_comes_back_exactly(tmp_path, trace):
    path = tmp_path / "copy.trc"
    assert write_trc(trace, path, overwrite=True) == ()
    back = read_trc(path)
    assert_same_columns(back, trace, only=HELD)
    assert back.launch.grid == trace.launch.grid
    assert back.launch.block == trace.launch.block


@relaxed
@given(text=files())
def test_divergent_traces_keep_every_access_on_the_way_through_a_file(written, tmp_path, text):
    trace = read_trc(written(text))
    write_trc(trace, tmp_path / "copy.trc", overwrite=True)
    assert accesses_of(read_trc(tmp_path / "copy.trc")) == accesses_of(trace)


@relaxed
@given(trace=nested_traces(), limit=st.integers(1, 100))
def test_the_size_of_pieces_does_not_show_in_the_file(tmp_path, trace, limit):
    write_trc(trace, tmp_path / "whole.trc", overwrite=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trc, "_RENDERED_ADDRESSES", limit)
        assert write_trc(trace, tmp_path / "cut.trc", overwrite=True) == ()
    assert (tmp_path / "cut.trc").read_bytes() == (tmp_path / "whole.trc").read_bytes()


def test_what_the_format_cannot_hold_is_said(tmp_path):
    rows = [
        [(Op.LOAD, 4, 0b11), (Op.BARRIER, 1, 0b11), (Op.ATOMIC, 4, 0b01), (Op.LOAD, 4, 0b111)],
        [(Op.LOAD, 4, 1)],
        [(Op.BARRIER, 1, 1)],
    ]
    trace = make_trace(rows, block=(32, 1, 1), grid=(2, 3, 1), blocks=[0, 2, 4])
    path = tmp_path / "lossy.trc"
    said = write_trc(trace, path)
    assert [text.split()[:2] for text in said] == [
        ["2", "barriers"],
        ["1", "atomics"],
        ["1", "instructions"],
        ["1", "blocks"],
        ["the", "grid"],
    ]
    assert said[-1] == "the grid (2, 3, 1) reads back as (3, 1, 1)"
    assert accesses_of(read_trc(path)) == accesses_of(trace)


def test_a_lane_without_a_thread_is_refused_and_leaves_no_file(tmp_path):
    trace = make_trace([[(LOAD, 4, 0xFF)]], block=(7, 1, 1))
    with pytest.raises(TraceError, match="block 0: thread 7 is active, but a block has 7 threads"):
        write_trc(trace, tmp_path / "bad.trc")
    assert os.listdir(tmp_path) == []


def test_a_block_that_is_too_large_for_the_format_is_refused(tmp_path):
    with pytest.raises(TraceError, match="1056 threads"):
        write_trc(make_trace([[(LOAD, 4, 1)]] * 33, block=(1056, 1, 1)), tmp_path / "bad.trc")


def test_an_existing_file_is_replaced_only_on_request_and_only_when_complete(tmp_path, monkeypatch):
    path = tmp_path / "old.trc"
    write_trc(make_trace([[(LOAD, 4, 1)]], block=(1, 1, 1)), path)
    before = path.read_bytes()
    newer = make_trace([[(LOAD, 8, 1)]] * 3, block=(1, 1, 1))
    with pytest.raises(TraceError, match="exists already"):
        write_trc(newer, path)
    with monkeypatch.context() as patch:
        patch.setattr(trc, "_render_piece", interrupt_after(2, trc._render_piece))
        with pytest.raises(KeyboardInterrupt):
            write_trc(newer, path, overwrite=True)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["old.trc"]
    write_trc(newer, path, overwrite=True)
    assert len(read_trc(path)) == 3


def interrupt_after(calls, function):
    left = [calls]

    def wrapped(*args):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return function(*args)

    return wrapped


# ---- Formats


def test_formats_are_recognised_by_content_then_by_extension(written, tmp_path):
    trace = read_trc(written(GOOD))
    assert_same_columns(formats.read(written(GOOD, "no-extension")), trace)
    storage.save(trace, tmp_path / "native")
    assert_same_columns(formats.read(tmp_path / "native"), trace)
    with pytest.raises(TraceError, match=r"bad\.TRC:1: expected 'blocksize"):
        formats.read(written("junk\n", "bad.TRC"))


def test_what_is_no_trace_is_refused(written, tmp_path):
    with pytest.raises(TraceError, match=r"not a trace of a known format \(native, .*trc, .*nvbit, ppt.*\)"):
        formats.read(written("junk\n", "junk.txt"))
    with pytest.raises(TraceError, match=r"folder without meta\.json"):
        formats.read(tmp_path)
    with pytest.raises(TraceError, match="No such file"):
        formats.read(tmp_path / "gone")
    with pytest.raises(TraceError, match=r"unknown trace format 'trk'; did you mean 'trc'\?"):
        formats.read(written(GOOD), format="trk")


def test_write_picks_the_format_by_extension(written, tmp_path):
    trace = read_trc(written(GOOD))
    assert formats.write(trace, tmp_path / "a.trc") == ()
    assert formats.write(trace, tmp_path / "atax.1") == ()
    assert formats.write(trace, tmp_path / "b.dat", format="trc") == ()
    assert (tmp_path / "a.trc").is_file()
    assert (tmp_path / "b.dat").is_file()
    assert (tmp_path / "atax.1" / "meta.json").is_file()
    assert_same_columns(formats.read(Path(tmp_path, "atax.1")), formats.read(tmp_path / "b.dat"))
