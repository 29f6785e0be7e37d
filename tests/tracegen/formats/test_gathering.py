"""Gathering against a sort of plain tuples, with memories so small that everything spills, and its temporary files."""

import gc
import os
import subprocess
import sys
import tempfile
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from rdmodel.trace import ALL_NEEDS, Op
from tests.support.examples import examples
from tracegen.formats.ordering import external_sort
from tracegen.formats.ordering._gather import append_rows, unpack
from tracegen.formats.ordering.gathering import Gathering
from tracegen.formats.ordering.rows import INSTRUCTION_FIELDS, ROW_FIELDS, ROW_TYPE, Scratch

relaxed = examples(100)


# ---- The oracle: sorted() of tuples


def gather_plainly(rows, block_warps):
    """Return {(block, warp): [(fields..., addresses)]} of rows (block, warp, fields..., addresses)."""
    blocks = sorted({row[0] for row in rows})
    return {
        (block, warp): [row[2:] for row in rows if row[:2] == (block, warp)]
        for block in blocks
        for warp in range(block_warps)
    }


def by_warp(columns, blocks, block_warps):
    """Return the same of gathered columns."""
    columns.check()
    assert columns.warps == len(blocks) * block_warps
    result = {}
    for w in range(columns.warps):
        rows = result[int(blocks[w // block_warps]), w % block_warps] = []
        for i in range(columns.warp_start[w], columns.warp_start[w + 1]):
            held = columns.addresses[columns.address_start[i] : columns.address_start[i + 1]]
            rows.append((*(getattr(columns, name)[i].item() for name in INSTRUCTION_FIELDS), held.tolist()))
    return result


def add(gathering, rows, step=1):
    """Add rows as arrays whose values are `step` places apart in memory."""
    fields = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    columns = {
        name: np.array([row[2 + i] for row in rows], {"needs": np.uint64, "mask": np.uint32}.get(name))
        for i, name in enumerate(INSTRUCTION_FIELDS)
    }
    columns["addresses"] = np.array([address for row in rows for address in row[-1]], np.int64)
    spread = [np.repeat(values, step)[::step] for values in (*fields, *columns.values())]
    gathering.add(*spread[:2], dict(zip(columns, spread[2:], strict=True)))


@st.composite
def instruction(draw, blocks, warps):
    op = draw(st.sampled_from(list(Op)))
    mask = draw(st.one_of(st.integers(1, 2**32 - 1), st.sampled_from([1, 2**31, 2**32 - 1])))
    lanes = 0 if op == Op.BARRIER else mask.bit_count()
    first, step = draw(st.integers(2**61, 2**62)), draw(st.sampled_from([0, 4, -8, 2**50]))
    addresses = [first + step * lane for lane in range(lanes)]
    if addresses and draw(st.booleans()):
        near = st.integers(first - 2**31 - 1, first + 2**31)
        addresses[draw(st.integers(0, lanes - 1))] = draw(st.one_of(st.integers(0, 2**62), near))
    return (
        draw(blocks),
        draw(st.integers(0, warps - 1)),
        draw(st.integers(0, 2**31 - 1)),
        int(op),
        draw(st.integers(0, 3)),
        draw(st.integers(1, 16)),
        draw(st.integers(0, 9)),
        draw(st.sampled_from([0, 1, ALL_NEEDS])),
        draw(st.booleans()),
        mask,
        addresses,
    )


@relaxed
@given(data=st.data(), warps=st.integers(1, 4), memory=st.sampled_from([0, 1 << 10, 1 << 12, 1 << 14, 1 << 20]))
def test_rows_come_out_by_block_and_warp_and_in_order_within_one(data, warps, memory):
    blocks = st.one_of(st.integers(0, 4), st.integers(0, 2**40))
    parts = data.draw(st.lists(st.lists(instruction(blocks, warps), min_size=1, max_size=12), min_size=1, max_size=6))
    gathering = Gathering(warps, memory=memory)
    for rows in parts:
        add(gathering, rows)
    columns, held = gathering.finish()
    assert by_warp(columns, held, warps) == gather_plainly([row for rows in parts for row in rows], warps)


def test_columns_need_not_be_contiguous():
    rows = many_rows(40, blocks=3, warps=2, seed=5)
    gathering = Gathering(2)
    add(gathering, rows, step=2)
    assert by_warp(*gathering.finish(), 2) == gather_plainly(rows, 2)


@relaxed
@given(data=st.data())
def test_packed_addresses_come_back_and_take_half_a_word_each_where_they_are_near(data):
    """From -2^31 to 2^31 - 1 from the first one is near; 2^31 is not."""
    edge = st.sampled_from([-(2**31) - 1, -(2**31), -1, 0, 1, 2**31 - 1, 2**31])
    first = data.draw(st.integers(2**32, 2**63 - 2**32))
    rest = data.draw(st.lists(st.one_of(edge, st.integers(-1000, 1000)), max_size=31))
    addresses = np.array([first, *(first + difference for difference in rest)], np.int64)
    words, rows, back = np.zeros_like(addresses), np.zeros(1, ROW_TYPE), np.zeros_like(addresses)
    zeros = {name: np.zeros(1, ROW_TYPE[name]) for name in ROW_FIELDS} | {"loop_exit": np.zeros(1, np.uint8)}
    zeros["mask"][0] = 2 ** len(addresses) - 1
    places = {"block": np.zeros(1, np.int64), "warp": np.zeros(1, np.int64), "slots": 1, "first": 0, "lane": 0}
    room = {"rows": rows, "row": 0, "words": words, "used": 0}
    *ends, used = append_rows(**places, **zeros, cache_op=None, addresses=addresses, **room)
    assert ends == [1, len(addresses), 1]
    unpack(words[:used].copy(), np.array([len(addresses)]), rows["flags"].copy(), back)
    assert back.tolist() == addresses.tolist()
    even = len(set(np.diff(addresses).tolist())) == 1
    near = all(-(2**31) <= difference < 2**31 for difference in rest)
    n = len(addresses)
    assert used == (n if n < 3 else 2 if even else 1 + n // 2 if near else n)


def many_rows(n, blocks, warps, seed, lanes=3):
    rng = np.random.default_rng(seed)
    block, warp = rng.integers(0, blocks, n), rng.integers(0, warps, n)
    return [
        (
            int(block[i]),
            int(warp[i]),
            i,
            0,
            0,
            4,
            0,
            ALL_NEEDS,
            False,
            (1 << lanes) - 1,
            [32 * i + k for k in range(lanes)],
        )
        for i in range(n)
    ]


@pytest.mark.parametrize("memory", [1 << 10, 1 << 13, 1 << 15, 1 << 17])
@pytest.mark.parametrize(("blocks", "warps"), [(1, 1), (2, 1), (1, 3), (500, 2), (10**6, 1), (2**40, 3)])
def test_merging_many_runs_agrees_with_sorting_at_once(memory, blocks, warps):
    rows = many_rows(1000, blocks, warps, seed=memory + blocks)
    small, large = Gathering(warps, memory=memory), Gathering(warps)
    for first in range(0, len(rows), 97):
        add(small, rows[first : first + 97])
    add(large, rows)
    (spilled, held), (at_once, expected) = small.finish(), large.finish()
    assert list(held) == list(expected)
    for name in (*INSTRUCTION_FIELDS, "addresses", "address_start", "warp_start"):
        assert np.array_equal(getattr(spilled, name), getattr(at_once, name)), name


def test_runs_of_blocks_that_follow_each_other_are_merged_in_order():
    rows = sorted(many_rows(3000, 300, 2, seed=1))
    gathering = Gathering(2, memory=1 << 12)
    add(gathering, rows)
    columns, held = gathering.finish()
    assert by_warp(columns, held, 2) == gather_plainly(rows, 2)


def test_slots_beyond_the_block_are_ranked_and_others_kept():
    """Two warps in a block; block 0 names its own warps, block 1 sits in slots 5 and 7, block 2 in slot 1 alone."""
    rows = many_rows(5, 1, 1, seed=0)
    places = [(1, 7), (0, 1), (1, 5), (2, 1), (1, 7)]
    rows = [(*place, *row[2:]) for place, row in zip(places, rows, strict=True)]
    for memory in (0, 1 << 20):
        gathering = Gathering(2, slots=8, memory=memory)
        add(gathering, rows)
        columns, held = gathering.finish()
        found = {place: [row[0] for row in warp] for place, warp in by_warp(columns, held, 2).items()}
        assert found == {(0, 0): [], (0, 1): [1], (1, 0): [2], (1, 1): [0, 4], (2, 0): [], (2, 1): [3]}


def test_more_warps_than_the_block_has_are_refused_by_number():
    gathering = Gathering(2, slots=8)
    add(gathering, [(9, slot, *many_rows(1, 1, 1, 0)[0][2:]) for slot in (1, 3, 6)])
    with pytest.raises(TraceError, match="block 9 has 3 warps, but a block of the launch has 2"):
        gathering.finish()


# ---- Temporary files


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gathering = Gathering(1, memory=0)
    add(gathering, many_rows(200, 5, 1, seed=3))
    assert os.listdir(tmp_path) == []
    columns, _ = gathering.finish()
    del gathering
    gc.collect()
    assert os.listdir(tmp_path) == []
    assert len(columns) == 200
    assert columns.addresses[-1] % 32 == 2


def test_a_temporary_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    gathering = Gathering(1, memory=0)
    with pytest.raises(TraceError, match=r"gone: the temporary folder \(TMPDIR\) cannot be written"):
        add(gathering, many_rows(200, 5, 1, seed=3))


def test_a_full_disk_is_an_error_that_says_so(monkeypatch):
    def full(self, values):
        raise external_sort.temporary_file_error(OSError(28, "No space left on device"))

    monkeypatch.setattr(external_sort.TemporaryFile, "write", full)
    small = Gathering(1, memory=0)
    with pytest.raises(TraceError, match="No space left on device"):
        add(small, many_rows(200, 5, 1, seed=3))


@pytest.mark.parametrize("forgetting", [True, False])
def test_the_space_of_what_was_merged_is_given_back_where_the_system_can(monkeypatch, forgetting):
    monkeypatch.setattr(external_sort, "_FORGET_BYTES", 1)
    if not forgetting:
        monkeypatch.setattr(external_sort, "_fallocate", lambda: None)
    spill = external_sort.SpilledRuns()
    keys = np.random.default_rng(0).integers(0, 1000, (4, 5000))
    for key in keys:
        rows = np.zeros(len(key), ROW_TYPE)
        rows["key"], rows["mask"] = np.sort(key), 1
        spill.append(rows, rows["key"] * 3)
    spill.rows.flush()
    before = os.fstat(spill.rows._file.fileno()).st_blocks
    merged = [(rows["key"].copy(), words.copy()) for rows, words in spill.merged(500, Scratch())]
    assert np.array_equal(np.concatenate([key for key, _ in merged]), np.sort(keys, axis=None))
    assert all(np.array_equal(words, key * 3) for key, words in merged)
    if forgetting and external_sort._fallocate() is not None and before:
        assert os.fstat(spill.rows._file.fileno()).st_blocks < before / 4


def test_merging_takes_no_more_memory_the_more_runs_there_are():
    def peak(runs, size):
        spill = external_sort.SpilledRuns()
        for run in range(runs):
            rows = np.zeros(size, ROW_TYPE)
            rows["key"], rows["mask"] = np.arange(size * run, size * (run + 1)), 1
            spill.append(rows, rows["key"])
        tracemalloc.start()
        assert sum(len(rows) for rows, _ in spill.merged(2000, Scratch())) == runs * size
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(64, 1000) < 1.5 * peak(4, 1000)


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="elsewhere columns are sent as they are")
def test_other_processes_map_the_columns_too():
    gathering = Gathering(1, memory=0)
    add(gathering, many_rows(200, 5, 1, seed=3))
    columns, _ = gathering.finish()
    name = columns.addresses.base.filename
    gc.collect()
    read = f"import numpy; print(numpy.memmap({name!r}, 'i8', 'r').tolist() == {columns.addresses.tolist()})"
    assert subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, check=True).stdout == "True\n"


GROWING = """
import resource, sys
import numpy as np
from rdmodel.trace import ALL_NEEDS
from tracegen.formats.ordering.gathering import Gathering
n, parts = 10_000, int(sys.argv[1])
rng = np.random.default_rng(0)
whole = {"pc": 0, "op": 0, "space": 0, "size": 4, "gap": 0, "loop_exit": 0}
columns = {name: np.full(n, value, np.uint8) for name, value in whole.items()}
columns |= {"needs": np.full(n, ALL_NEEDS, np.uint64), "mask": np.full(n, 2**32 - 1, np.uint32)}
columns["addresses"] = np.arange(32 * n) if sys.argv[2] == "regular" else rng.integers(0, 2**40, 32 * n)
gathering = Gathering(8, memory=16 << 20)
for _ in range(parts):
    gathering.add(rng.integers(0, 1000, n), rng.integers(0, 8, n), columns)
if sys.argv[3] == "columns":
    gathering.finish()
else:
    packed = gathering.finish_packed()
    for block in packed.blocks:
        packed.block(block)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.parametrize("result", ["columns", "packed"])
@pytest.mark.parametrize("kind", ["regular", "random"])
def test_memory_does_not_grow_with_the_trace(kind, result):
    """23 MB and 72 MB of rows and addresses in 16 MB."""
    command = [sys.executable, "-c", GROWING]
    given = {"check": True, "capture_output": True, "text": True}
    runs = [subprocess.run([*command, n, kind, result], **given) for n in ("8", "25")]
    peak = [int(run.stdout) for run in runs]
    unit = 1 if sys.platform == "darwin" else 1024
    assert (peak[1] - peak[0]) * unit < 16 << 20
