"""Test the .trc writer by round trips, and the losses that it reports."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from rdmodel.trace import ALL_NEEDS, Columns, Launch, Op, Space, Trace
from tests.support.trace_files import file_writer, relaxed
from tests.support.trc_traces import LOAD, accesses_of, assert_same_columns, files
from tracegen.formats import trc
from tracegen.formats.trc import read_trc, write_trc


@pytest.fixture
def written(tmp_path):
    """Return a function that writes text or bytes to a file and returns its path."""
    return file_writer(tmp_path, "kernel.trc")


def make_trace(rows_per_warp, *, block=(64, 1, 1), grid=None, blocks=None, trusted=False):
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
    return Trace(launch, columns, blocks, trusted)


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
    trace = make_trace([[(LOAD, 4, 0xFF)]], block=(7, 1, 1), trusted=True)
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
