"""Packed traces against columns of the same instructions, and against traces that were read into memory."""

import copy
import gc
import os
import pickle
import tempfile
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel
from rdmodel.errors import TraceError
from rdmodel.trace import Columns, locate_block, slice_warps, storage
from tests.support.examples import examples
from tests.support.nvbit_texts import header, lanes, record
from tests.support.trace_files import file_writer
from tracegen import formats
from tracegen.formats.accelsim import read_accelsim
from tracegen.formats.nvbit import read_nvbit
from tracegen.formats.ordering import packed as packed_module
from tracegen.formats.ordering.gathering import Gathering
from tracegen.formats.ordering.rows import NO_ACCESS_OP
from tracegen.formats.packed_trace import PackedTrace
from tracegen.formats.ppt import read_ppt

relaxed = examples(100)


@pytest.fixture
def written(tmp_path):
    """Return a function that writes text to a file and returns its path."""
    return file_writer(tmp_path, "trace.txt")


def same(one, other):
    """Check that two sets of columns are equal."""
    for name in Columns.__dataclass_fields__:
        mine, theirs = getattr(one, name), getattr(other, name)
        assert (mine is None) == (theirs is None), name
        assert mine is None or np.array_equal(mine, theirs), name


def add_rows(gathering, rng, n, blocks, slots, cache_ops):
    """Add instructions of random warps: evenly spaced, near and far addresses, barriers, and some without an access."""
    op = rng.choice([0, 1, 2, 3, NO_ACCESS_OP], n, p=[0.4, 0.2, 0.1, 0.1, 0.2]).astype(np.uint8)
    mask = rng.integers(1, 2**32, n, dtype=np.uint32)
    mask[rng.random(n) < 0.5] = 2**32 - 1
    mask[op == NO_ACCESS_OP] = 0
    addresses = []
    for i in range(n):
        count = 0 if op[i] == 3 else int(mask[i]).bit_count()
        first, span = int(rng.integers(2**40)), int(rng.choice([0, 2**20, 2**40]))
        addresses += [first + 4 * lane + (int(rng.integers(span)) if span else 0) for lane in range(count)]
    columns = {
        "pc": rng.integers(0, 100, n).astype(np.int32),
        "op": op,
        "space": rng.integers(0, 4, n).astype(np.uint8),
        "size": rng.integers(1, 17, n).astype(np.uint8),
        "gap": rng.integers(0, 3, n).astype(np.int32),
        "needs": rng.integers(0, 2**63, n).astype(np.uint64),
        "loop_exit": rng.random(n) < 0.1,
        "mask": mask,
        "addresses": np.array(addresses, np.int64),
    }
    if cache_ops:
        columns["cache_op"] = rng.integers(0, 3, n).astype(np.uint8)
    gathering.add(rng.choice(blocks, n), rng.choice(slots, n), columns)


@relaxed
@given(
    seed=st.integers(0, 2**32),
    parts=st.integers(1, 5),
    n=st.integers(1, 60),
    memory=st.sampled_from([0, 1 << 12, 1 << 14]),
    warps=st.integers(1, 4),
    cache_ops=st.booleans(),
    far=st.booleans(),
)
def test_every_block_is_unpacked_as_the_columns_have_it(seed, parts, n, memory, warps, cache_ops, far):
    rng = np.random.default_rng(seed)
    blocks = np.sort(rng.choice(2**40 if far else 12, rng.integers(1, 6), replace=False))
    slots = np.sort(rng.choice(16, rng.integers(1, warps + 1), replace=False))
    packs, plain = (Gathering(warps, slots=16, memory=memory) for _ in range(2))
    for part in range(parts):
        for gathering in (packs, plain):
            add_rows(gathering, np.random.default_rng([seed, part]), n, blocks, slots, cache_ops)
    columns, ids = plain.finish()
    packed = packs.finish_packed()
    if packed is None:  # they fit memory
        same(packs.finish()[0], columns)
        return
    assert list(packed.blocks) == list(ids)
    assert packed.accesses == len(columns)
    assert packed.has_cache_ops == (columns.cache_op is not None)
    order = rng.permutation(len(ids))
    for at in order:
        expected = slice_warps(columns, int(at) * warps, (int(at) + 1) * warps)
        same(packed.block(ids[at]), expected)
        assert packed.lanes(ids[at]) == len(expected.addresses)
    same(packed.columns(), columns)
    for at in order:
        same(packed.block(ids[at]), slice_warps(columns, int(at) * warps, (int(at) + 1) * warps))


TEXT = header() + "".join(
    record(lanes(4096 * (i + 1), step=4 + i % 3), cta=(i % 4, i // 4 % 2, 0), warp=i % 3 // 2, opcode=opcode)
    for i, opcode in enumerate(["LDG.E", "STG.E.64", "LDS", "LDG.E.EF"] * 20)
)


def both(path):
    """Return a packed trace of a file of NVBit, and one in memory."""
    packed, held = read_nvbit(path, memory=0), read_nvbit(path)
    assert isinstance(packed, PackedTrace)
    assert not isinstance(held, PackedTrace)
    return packed, held


def test_a_trace_that_does_not_fit_memory_is_packed_and_equal(written):
    packed, held = both(written(TEXT))
    assert (packed.launch, list(packed.blocks), len(packed)) == (held.launch, list(held.blocks), len(held))
    assert packed.stored
    assert packed.may_have_cache_ops
    assert held.may_have_cache_ops
    for block in held.blocks:
        same(packed.block(block), held.block(block))
        source, first = locate_block(packed, block)
        same(slice_warps(source, first, first + 2), held.block(block))
        assert packed.count_lanes(block) == held.count_lanes(block) == len(held.block(block).addresses)
    assert packed.pages is None
    same(packed.columns, held.columns)
    assert packed.pages is not None
    assert packed.pages.mapped


def test_models_say_the_same_of_a_packed_trace(written):
    packed, held = both(written(TEXT))
    for run in (rdmodel.predict, rdmodel.simulate):
        one, other = (run(trace, "v100").to_dict() for trace in (packed, held))
        assert {**one, "seconds": 0, "trace_seconds": 0} == {**other, "seconds": 0, "trace_seconds": 0}


def test_a_packed_trace_is_saved_as_any_other(written, tmp_path):
    packed, held = both(written(TEXT))
    storage.save(packed, tmp_path / "packed")
    same(storage.load(tmp_path / "packed").columns, held.columns)


def test_copies_share_instructions_and_pickles_have_columns(written):
    packed, held = both(written(TEXT))
    shared = copy.copy(packed)
    shared.blocks = packed.blocks[:2]
    same(shared.block(packed.blocks[1]), held.block(packed.blocks[1]))
    with pytest.raises(TraceError, match=f"block {packed.blocks[2]} is not in the trace"):
        shared.block(packed.blocks[2])
    again = pickle.loads(pickle.dumps(shared))
    assert not isinstance(again, PackedTrace)
    assert list(again.blocks) == list(shared.blocks)
    same(again.columns, held.columns)


def test_a_block_that_the_trace_lacks_is_named_with_advice(written):
    packed, _ = both(written(header() + record(lanes(), cta=(1, 0, 0))))
    for ask in (packed.block, packed.count_lanes, lambda block: locate_block(packed, block)):
        with pytest.raises(TraceError, match=r"block 0 is not in the trace .*--lenient treats blocks without records"):
            ask(0)


def test_columns_are_made_where_the_blocks_in_use_would_take_too_much_memory(written, monkeypatch):
    packed, held = both(written(TEXT))
    size = max(packed.block(block).nbytes for block in packed.blocks)
    monkeypatch.setattr(packed_module, "MAX_UNPACKED_BYTES", 3 * size)
    for block in packed.blocks:  # each is dropped before the next
        assert locate_block(packed, block)[0].warps == 2
    part = packed.block(packed.blocks[0]).addresses[3:5]
    others = [packed.block(block) for block in packed.blocks[1:3]]
    source, first = locate_block(packed, packed.blocks[3])
    assert (source.warps, first) == (2 * len(packed.blocks), 6)
    assert part.tolist() == held.block(packed.blocks[0]).addresses[3:5].tolist()
    for block, columns in zip(packed.blocks[1:3], others, strict=True):
        same(columns, held.block(block))
        same(packed.block(block), columns)


def test_too_many_blocks_for_the_index_are_sorted_into_columns(written, monkeypatch):
    monkeypatch.setattr(packed_module, "MAX_ENTRIES", 3)
    trace = read_nvbit(written(TEXT), memory=0)
    assert not isinstance(trace, PackedTrace)
    same(trace.columns, read_nvbit(written(TEXT, "again.txt")).columns)


def test_blocks_with_a_partial_warp_or_without_records_need_columns(written):
    partial = header(block=(48, 1, 1)) + record(lanes(), warp=0) + record(lanes(count=16), warp=1)
    assert not isinstance(read_nvbit(written(partial), memory=0), PackedTrace)
    missing = written(header() + record(lanes(), cta=(1, 0, 0)), "missing.txt")
    assert not isinstance(read_nvbit(missing, memory=0, lenient=True), PackedTrace)
    assert isinstance(read_nvbit(missing, memory=0), PackedTrace)


def test_slots_beyond_the_block_are_ranked_by_those_that_access_memory(written):
    text = header() + record(lanes(), warp=5) + record(lanes(), warp=2, opcode="LDS") + record(lanes(8192), warp=3)
    packed, held = both(written(text))
    assert np.diff(packed.block(0).warp_start).tolist() == [1, 1]
    same(packed.block(0), held.block(0))


def test_threads_may_ask_for_blocks_while_columns_are_made(written):
    packed, held = both(written(TEXT))
    finished = []

    def read():
        for _ in range(20):
            for block in packed.blocks:
                same(packed.block(block), held.block(block))
        finished.append(True)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    same(packed.columns, held.columns)
    for thread in threads:
        thread.join()
    assert len(finished) == 4


def test_other_formats_are_packed_too(tmp_path):
    (tmp_path / "kernel_1_block_0.mem").write_text("\n=====\nLDG.E 0x100 0x104 \n=====\nSTG.E 0x200 \n")
    packed = read_ppt(tmp_path, block=(64, 1, 1), memory=0)
    assert isinstance(packed, PackedTrace)
    same(packed.block(0), read_ppt(tmp_path, block=(64, 1, 1)).block(0))
    path = tmp_path / "kernel-1.traceg"
    path.write_text(
        "-kernel name = k\n-grid dim = (1,1,1)\n-block dim = (32,1,1)\n-accelsim tracer version = 5\n"
        "-enable lineinfo = 0\n\n#BEGIN_TB\n\nthread block = 0,0,0\n\nwarp = 0\ninsts = 1\n"
        "0040 ffffffff 1 R8 LDG.E.SYS 1 R2 4 1 0x1000 4 0\n\n#END_TB\n"
    )
    held = formats.read(path)
    packed = read_accelsim(path, memory=0)
    assert isinstance(packed, PackedTrace)
    same(packed.block(0), held.block(0))


def test_nothing_is_left_behind(written, tmp_path, monkeypatch):
    path = written(TEXT)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else None
    trace = read_nvbit(path, memory=0)
    assert len(trace.block(0)) > 0
    assert os.listdir(folder) == []
    del trace
    gc.collect()
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before
