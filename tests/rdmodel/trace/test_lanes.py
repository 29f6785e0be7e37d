"""Test that lanes of threads which a block does not have are refused, however a trace is given."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from rdmodel.trace import Columns, Launch, Op, Trace, storage
from rdmodel.trace import lanes as lanes_module
from rdmodel.trace.lanes import last_warp_mask
from tests.support.trace_files import relaxed
from tracegen.formats import parquet

FULL = 0xFFFFFFFF


def columns(masks_by_warp, op=Op.LOAD):
    """Return columns of one instruction per mask."""
    masks = np.array([mask for masks in masks_by_warp for mask in masks], np.uint32)
    n = len(masks)
    active = np.zeros(n, np.int64) if op == Op.BARRIER else np.bitwise_count(masks).astype(np.int64)
    return Columns(
        warp_start=np.cumsum([0, *map(len, masks_by_warp)]),
        address_start=np.concatenate([[0], np.cumsum(active)]),
        addresses=np.zeros(int(active.sum()), np.int64),
        mask=masks,
        op=np.full(n, op, np.uint8),
        size=np.full(n, 4, np.uint8),
        loop_exit=np.zeros(n, np.bool_),
        **{name: np.zeros(n, np.int64) for name in ("pc", "space", "gap", "needs")},
    )


def launch(threads, blocks=1):
    return Launch(kernel="k", grid=(blocks, 1, 1), block=(threads, 1, 1))


@pytest.mark.parametrize(("threads", "mask"), [(16, 0xFFFF), (1, 1), (31, FULL >> 1), (32, FULL), (33, 1), (64, FULL)])
def test_the_last_warp_has_the_lanes_of_the_remaining_threads(threads, mask):
    assert last_warp_mask(launch(threads)) == mask


def test_a_full_mask_in_a_block_of_16_threads_is_refused_with_block_warp_instruction_and_lane():
    message = "block 3, warp 0, instruction 1: lane 16 is active without a thread: a block has 16 threads"
    with pytest.raises(TraceError, match=message):
        Trace(launch(16, 5), columns([[0xFFFF], [1, FULL]]), [1, 3])


def test_only_the_last_warp_may_lack_lanes():
    whole = columns([[FULL], [0xFF], [FULL, FULL], [0x80]])
    assert len(Trace(launch(40, 2), whole)) == 5
    with pytest.raises(TraceError, match="block 1, warp 1, instruction 0: lane 8 is active"):
        Trace(launch(40, 2), columns([[FULL], [0xFF], [FULL, FULL], [0x100]]))


def test_the_mask_of_a_barrier_says_nothing_about_accesses():
    assert len(Trace(launch(16), columns([[FULL]], Op.BARRIER))) == 1


@relaxed
@given(
    threads=st.integers(1, 100),
    masks=st.lists(st.lists(st.integers(1, FULL), max_size=5), min_size=4, max_size=12),
    chunk=st.integers(1, 4),
)
def test_the_check_agrees_with_a_loop_over_all_lanes(threads, masks, chunk):
    where = launch(threads, len(masks) // -(-threads // 32))
    masks = masks[: where.blocks * where.block_warps]
    first = None
    for warp, some in enumerate(masks):
        for i, mask in enumerate(some):
            for lane in range(32):
                if first is None and mask >> lane & 1 and warp % where.block_warps * 32 + lane >= threads:
                    first = f"block {warp // where.block_warps}, warp {warp % where.block_warps}, instruction {i}: "
                    first += f"lane {lane} "
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes_module, "VALUES_PER_CHECK", chunk)
        if first is None:
            assert len(Trace(where, columns(masks))) == sum(map(len, masks))
        else:
            with pytest.raises(TraceError, match=first):
                Trace(where, columns(masks))


@pytest.mark.parametrize(
    ("write", "read"), [(storage.save, storage.load), (parquet.write_parquet, parquet.read_parquet)]
)
def test_stored_traces_with_lanes_of_missing_threads_are_refused_with_their_name(tmp_path, write, read):
    if write is parquet.write_parquet:
        pytest.importorskip("pyarrow")
    write(Trace(launch(40), columns([[FULL], [0xFFFF]]), trusted=True), tmp_path / "wide")
    with pytest.raises(TraceError, match="wide: block 0, warp 1, instruction 0: lane 8 is active"):
        read(tmp_path / "wide")
