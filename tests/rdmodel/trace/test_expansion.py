"""`expand` against a loop that writes one row at a time."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.trace import EVERY_ITERATION, Columns, Op, Segment, slice_warps
from rdmodel.trace.expansion import concatenate, expand
from tests.support.examples import examples

ROW = ("pc", "op", "space", "size", "gap", "needs", "loop_exit", "mask")


def make_segment(rng, warps, body, trips):
    op = rng.integers(0, 4, body)
    mask = rng.integers(0, 1 << 32, (warps, body), dtype=np.uint32)
    mask[rng.random((warps, body)) < 0.3] = 0
    return Segment(
        trips=trips,
        pc=rng.integers(0, 1000, body).astype(np.int32),
        op=op.astype(np.uint8),
        space=rng.integers(0, 2, body).astype(np.uint8),
        size=rng.integers(1, 17, body).astype(np.uint8),
        gap=rng.integers(0, 5, body).astype(np.int32),
        loop_exit=rng.integers(0, 3, body).astype(np.uint8) if rng.random() < 0.5 else rng.random(body) < 0.5,
        needs=rng.integers(0, 1 << 63, (warps, body), dtype=np.uint64),
        mask=mask,
        base=rng.integers(1 << 20, 1 << 40, (warps, body, 32)),
        step=rng.integers(-100, 100, body),
    )


def naive(program, warps):
    """Return, warp by warp, the rows of a program as tuples."""
    rows = [[] for _ in range(warps)]
    for s in program:
        for t in range(s.trips):
            for w in range(warps):
                for i in range(len(s.pc)):
                    mask = int(s.mask[w, i])
                    if mask == 0:
                        continue
                    lanes = [lane for lane in range(32) if mask >> lane & 1 and s.op[i] != Op.BARRIER]
                    addresses = tuple(int(s.base[w, i, lane]) + t * int(s.step[i]) for lane in lanes)
                    leaves = s.loop_exit[i] == EVERY_ITERATION or (bool(s.loop_exit[i]) and t == s.trips - 1)
                    row = (s.pc[i], s.op[i], s.space[i], s.size[i], s.gap[i], s.needs[w, i], leaves, mask)
                    rows[w].append((*map(int, row), addresses))
    return rows


def rows_of(columns: Columns):
    out = []
    for w in range(columns.warps):
        out.append([])
        for r in range(columns.warp_start[w], columns.warp_start[w + 1]):
            lanes = columns.addresses[columns.address_start[r] : columns.address_start[r + 1]]
            out[-1].append((*(int(getattr(columns, name)[r]) for name in ROW), tuple(lanes.tolist())))
    return out


@examples(60)
@given(
    seed=st.integers(0, 1 << 32),
    warps=st.integers(1, 4),
    shapes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), max_size=4),
)
def test_expansion_writes_the_rows_that_a_plain_loop_writes(seed, warps, shapes):
    rng = np.random.default_rng(seed)
    program = [make_segment(rng, warps, body, trips) for body, trips in shapes]
    columns = expand(program, warps)
    columns.check()
    assert rows_of(columns) == naive(program, warps)
    assert len(columns) == sum(s.instructions for s in program)


def test_a_program_of_nothing_leaves_every_warp_empty():
    columns = expand([], 3)
    columns.check()
    assert (columns.warps, len(columns)) == (3, 0)


@examples(25)
@given(seed=st.integers(0, 1 << 32), parts=st.integers(0, 4))
def test_concatenated_parts_can_be_sliced_out_again(seed, parts):
    rng = np.random.default_rng(seed)
    sizes = [int(rng.integers(1, 4)) for _ in range(parts)]
    columns = [expand([make_segment(rng, warps, 2, 2)] * int(rng.integers(0, 3)), warps) for warps in sizes]
    joined = concatenate(columns)
    joined.check()
    first = 0
    for part, warps in zip(columns, sizes, strict=True):
        again = slice_warps(joined, first, first + warps)
        for column in fields(Columns):
            np.testing.assert_array_equal(getattr(again, column.name), getattr(part, column.name))
        first += warps
    assert joined.warps == first


def test_expanded_columns_cannot_be_written_to():
    columns = expand([make_segment(np.random.default_rng(1), 1, 2, 2)], 1)
    with pytest.raises(ValueError, match="read-only"):
        columns.addresses[:] = 0
