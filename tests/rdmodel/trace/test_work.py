"""Test works of blocks: adding, scaling, and the requests of traces that record memory instructions alone."""

from __future__ import annotations

import numpy as np
import pytest

from rdmodel.errors import TraceError
from rdmodel.trace import CacheOp, Columns, Launch, Op, Segment, Space, Trace, Work
from rdmodel.trace.counting import count_work, work_of_block
from rdmodel.trace.work import INSTRUCTION_CLASSES, no_work

LANES = np.arange(32)


def columns_of(rows, cache_ops=None) -> Columns:
    """Return one warp with a row per (op, space, size, gap, addresses)."""
    mask = [(1 << len(places)) - 1 if len(places) else 0xFFFFFFFF for *_, places in rows]
    counts = [0, *np.cumsum([len(places) for *_, places in rows])]
    op, space, size, gap = (np.array([row[i] for row in rows]) for i in range(4))
    return Columns(
        warp_start=np.array([0, len(rows)]), pc=np.arange(len(rows)), op=op, space=space, size=size, gap=gap,
        needs=np.zeros(len(rows), np.uint64), loop_exit=np.zeros(len(rows), np.bool_), mask=np.array(mask),
        address_start=np.array(counts), addresses=np.concatenate([places for *_, places in rows]), cache_op=cache_ops,
    )  # fmt: skip


ROWS = [
    (Op.LOAD, Space.GLOBAL, 4, 3, 4 * LANES),  # a line, 4 sectors
    (Op.LOAD, Space.GLOBAL, 4, 0, 128 * LANES),  # 32 lines, 32 sectors
    (Op.STORE, Space.GLOBAL, 8, 2, 8 * LANES),  # 2 lines, one per half warp; 8 sectors
    (Op.ATOMIC, Space.GLOBAL, 4, 0, np.zeros(32, np.int64)),  # a line, a sector
    (Op.LOAD, Space.LOCAL, 4, 0, 4 * LANES[:8]),  # 8 lanes: a sector
    (Op.STORE, Space.LOCAL, 4, 0, 4 * LANES[:8]),
    (Op.LOAD, Space.CONSTANT, 4, 0, 4 * (LANES % 4)),  # 4 words: 3 replays
    (Op.BARRIER, Space.GLOBAL, 0, 5, LANES[:0]),
    (Op.LOAD, Space.GLOBAL, 4, 0, 4 * LANES),  # with the operator tex: a texture
]
CACHE_OPS = np.array([0] * 8 + [CacheOp.TEX], np.uint8)
LAUNCH = Launch(kernel="rows", grid=(1, 1, 1), block=(32, 1, 1))


def only(counts):
    return {name: value for name, value in counts.items() if value}


def test_a_trace_of_memory_instructions_has_their_requests_and_no_arithmetic():
    found = count_work(Trace(LAUNCH, columns_of(ROWS, CACHE_OPS)))
    assert (found.blocks, found.warps, found.has_arithmetic, found.has_shared) == (1, 1, False, False)
    each = {
        "load_global": 2, "store_global": 1, "atomic_global": 1, "load_local": 1, "store_local": 1, "load_texture": 1,
    }  # fmt: skip
    assert only(found.requests) == each
    assert only(found.instructions) == {**each, "load_constant": 1, "barrier": 1, "other": 3 + 2 + 5}
    assert only(found.tag_lookups) == each | {"load_global": 33, "store_global": 2}
    assert only(found.sectors) == {
        "load_global": 36, "store_global": 8, "atomic_global": 1, "load_local": 1, "store_local": 1, "load_texture": 4,
    }  # fmt: skip
    assert found.constant_replays == 3
    # Lines of 128 bytes without sectors, and requests of 32 bytes: 8 lanes of 4 bytes, or 4 lanes of 8.
    whole = count_work(Trace(LAUNCH, columns_of(ROWS, CACHE_OPS)), sector=128)
    assert whole.sectors == whole.tag_lookups == found.tag_lookups
    cut = count_work(Trace(LAUNCH, columns_of(ROWS, CACHE_OPS)), request_bytes=32)
    assert cut.tag_lookups["load_global"] == 4 + 32
    assert cut.tag_lookups["store_global"] == 8


class Looped(Trace):
    """A block of one warp: three trips over a load of global and one of constant memory."""

    def __init__(self) -> None:
        self.launch, self.blocks, self.pages = LAUNCH, range(1), None

    def block(self, block):
        two = np.zeros(2, np.int32)
        return [
            Segment(
                trips=3, pc=two, op=two.astype(np.uint8), space=np.array([Space.GLOBAL, Space.CONSTANT], np.uint8),
                size=np.array([4, 4], np.uint8), gap=np.array([1, 0], np.int32), loop_exit=np.zeros(2, np.bool_),
                needs=np.zeros((1, 2), np.uint64), mask=np.full((1, 2), 0xFFFFFFFF, np.uint32),
                base=np.array([[4 * LANES, 4 * (LANES // 16)]]), step=np.array([128, 4]),
            )
        ]  # fmt: skip


def test_loops_count_once_per_iteration():
    found = work_of_block(Looped(), 0)
    assert only(found.instructions) == {"load_global": 3, "load_constant": 3, "other": 3}
    assert only(found.sectors) == {"load_global": 12}
    assert found.constant_replays == 3


def test_works_add_up_and_scale():
    one = Work(blocks=1, warps=2, instructions={"fp32": 3}, operations={"fp32_fma": 64, "fp32_add": 1},
               shared_wavefronts={"load_shared": 8}, shared_groups={"load_shared": 2}, constant_replays=1,
               matrix_bytes=256)  # fmt: skip
    other = Work(blocks=1, warps=2, instructions={"int": 1}, has_arithmetic=False)
    both = one + other + no_work()
    assert (both.blocks, both.warps, both.has_arithmetic, both.has_shared) == (2, 4, False, True)
    assert only(both.instructions) == {"fp32": 3, "int": 1}
    assert both.issued == 4
    assert tuple(both.instructions) == INSTRUCTION_CLASSES
    grid = both.scaled(10)
    assert (grid.blocks, grid.warps, grid.constant_replays, grid.matrix_bytes) == (10, 20, 5, 5 * 256)
    assert grid.flops == {"fp32": 5 * 129, "fp16": 0, "fp64": 0}
    assert grid.shared_conflicts["load_shared"] == 30
    assert grid.to_dict()["flops"]["fp32"] == 645
    assert both.scaled(2) is both
    assert no_work().scaled(4).issued == 0


def test_an_unknown_class_is_refused():
    with pytest.raises(TraceError, match=r"instructions: \['fp8'\]: must be among fp32"):
        Work(blocks=1, warps=1, instructions={"fp8": 1})
